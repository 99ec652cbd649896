// kvcache/tree_state.h
//
// The inside of Tree, shared by its source files.
#pragma once
#include "kvcache/tree.h"

namespace gezel::kvcache {

using Kids = std::unordered_map<Key, NodeId>;

struct Tree::State {
  TreeOptions options;
  std::unordered_map<NodeId, Node> nodes;
  std::map<Digest, Kids> roots;  // by domain
  NodeId next_id = 1;
  std::map<int, NodeId> slot_tips;

  // Parts and records may be shared by the nodes of a split: each counts once.
  Bytes used[2] = {0, 0};
  std::unordered_map<const Rows*, std::uint32_t> part_uses;
  struct RecordUse {
    DiskRef record;
    std::uint32_t count = 0;
  };
  std::map<Digest, RecordUse> records;
  std::vector<Digest> freed_records;  // since the last take

  bool rows_mode() const { return keeps_rows(options.mode); }
  Node* get(NodeId id) {
    const auto found = nodes.find(id);
    return found == nodes.end() ? nullptr : &found->second;
  }
  const Node* get(NodeId id) const {
    const auto found = nodes.find(id);
    return found == nodes.end() ? nullptr : &found->second;
  }
  Kids& kids_of(NodeId parent, const Digest& domain) {
    return parent == kNoNode ? roots[domain] : nodes.at(parent).kids;
  }
  // Null: nothing begins there.
  const Kids* find_kids(const Node* node, const Digest& domain) const {
    if (node != nullptr) return &node->kids;
    const auto root = roots.find(domain);
    return root == roots.end() ? nullptr : &root->second;
  }
  // What follows `matched` tokens, the last of which lies in `node`.
  std::vector<Key> latest_from(const Node* node, std::uint32_t matched, const Digest& domain,
                               std::size_t limit) const;
  // Moves `place`, which stands somewhere in these tokens, as far along them as the tree goes.
  const Node* follow(const Digest& domain, std::span<const std::int32_t> tokens, TreePlace& place) const;
  bool any_kid(const Node& node, auto&& predicate) const {
    for (const auto& [key, kid] : node.kids) {
      if (predicate(nodes.at(kid))) return true;
    }
    return false;
  }
  bool has_body(const Node& node) const { return node.has_rows() || node.checkpoint; }

  // structure
  NodeId add(NodeId parent, const Digest& domain, std::span<const Key> edge, std::uint32_t start, Class cls);
  // The node keeps what lies behind its first `count` tokens and its id; the new node above it is returned.
  NodeId split(NodeId id, std::uint32_t count);
  // Makes a node end at `end` of `keys`; kNoNode where a media span forbids it.
  NodeId ensure_end(const Digest& domain, std::span<const Key> keys, std::uint32_t end, Class cls);
  // Removes nodes without bodies, kids and users, from `id` upwards.
  void prune(NodeId id);
  // After a body of `id` went: what can no longer be reached goes too.
  void settle(NodeId id);
  void merge_into(NodeId parent_id, NodeId kid_id);

  // bodies
  void add_rows(Node& node, std::vector<Piece> rows);
  void add_checkpoint(Node& node, std::shared_ptr<const Checkpoint> checkpoint);
  void add_disk(Node& node, DiskRef record);
  void remove_host(Node& node);
  void remove_checkpoint(Node& node);
  void remove_disk(Node& node);
  bool may_go(const Node& node, Tier tier) const;
  bool drop_tier(NodeId id, Tier tier, Tree::Dropped& dropped);
  // Evicts from `tier` until enough() says so.
  void trim(Tier tier, const std::function<bool()>& enough, const std::function<bool(NodeId)>& keep,
            Tree::Dropped& dropped);
  std::vector<Digest> take_freed() { return std::exchange(freed_records, {}); }
  Bytes share_of(const Node& node, Tier tier) const;
};

}  // namespace gezel::kvcache
