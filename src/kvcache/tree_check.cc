// The invariants of spec 40 section 11.5, as far as the tree alone can see them.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "kvcache/tree_state.h"

namespace gezel::kvcache {

std::string Tree::check() const {
  const State& state = *state_;
  Bytes host = 0, disk = 0;
  std::map<const Rows*, std::uint32_t> parts;
  std::map<Digest, std::uint32_t> records;
  std::size_t reached = 0;
  const auto kids_of = [&](NodeId parent, const Digest& domain) -> const Kids& {
    return parent == kNoNode ? state.roots.at(domain) : state.nodes.at(parent).kids;
  };
  for (const auto& [id, node] : state.nodes) {
    const auto broken = [&](std::string_view what) { return fmt::format("node {}: {}", id, what); };
    if (node.edge.empty() || node.end - node.start != node.edge.size())
      return broken("I3: length of its edge");
    const Node* parent = node.parent == kNoNode ? nullptr : find(node.parent);
    if (node.parent != kNoNode && parent == nullptr) return broken("its parent is gone");
    if (node.start != (parent == nullptr ? 0 : parent->end))
      return broken("does not begin where its parent ends");
    if (parent == nullptr && !state.roots.contains(node.domain)) return broken("its domain has no root");
    const Kids& siblings = kids_of(node.parent, node.domain);
    const auto entry = siblings.find(node.edge.front());
    if (entry == siblings.end() || entry->second != id) return broken("I1: not found by its first key");
    reached += node.kids.size();
    if (!node.rows.empty()) {
      if (!state.rows_mode()) return broken("rows in a mode without rows");
      std::uint64_t tokens = 0;
      for (const Piece& piece : node.rows) {
        if (piece.from >= piece.to || piece.to > piece.part->tokens)
          return broken("a piece outside its part");
        tokens += piece.tokens();
        if (parts[piece.part.get()]++ == 0) host += piece.part->bytes.size();
      }
      if (tokens != node.edge.size()) return broken("rows of another length");
    }
    if (node.checkpoint) host += node.checkpoint->bytes.size();
    if (node.disk) {
      if (records[node.disk->id]++ == 0) disk += node.disk->bytes;
      if (node.disk->start > node.start || node.disk->end < node.end)
        return broken("a record that does not cover it");
    }
    if (state.rows_mode()) {
      if (node.has_rows() && parent != nullptr && !parent->has_rows())
        return broken("I2: its parent has no rows");
      if (node.checkpoint && !node.has_rows()) return broken("I2: a checkpoint without rows");
    }
    if (!state.has_body(node) && node.kids.empty() && node.refs == 0 && node.pins == 0)
      return broken("has no body and nobody uses it");
    if (parent != nullptr && (parent->refs < node.refs || parent->pins < node.pins))
      return broken("I8: its parent is used less than it");
    if (!std::is_sorted(node.slots.begin(), node.slots.end())) return broken("its slots are not in order");
    for (const int slot : node.slots) {
      const auto tip = state.slot_tips.find(slot);
      if (tip == state.slot_tips.end()) return broken("in a slot that holds nothing");
      const auto steps = path(tip->second);
      if (std::find(steps.begin(), steps.end(), id) == steps.end())
        return broken("in a slot that holds other tokens");
    }
    if (parent != nullptr && is_media(node.edge.front()) && parent->edge.back() == node.edge.front())
      return broken("begins inside a media span");
  }
  for (const auto& [domain, kids] : state.roots) {
    if (kids.empty()) return "a root without nodes";
    reached += kids.size();
  }
  if (reached != state.nodes.size()) return "I1: nodes that no parent names, or names twice";
  for (const auto& [slot, tip] : state.slot_tips) {
    if (find(tip) == nullptr) return fmt::format("slot {} ends at a node that is gone", slot);
    for (const NodeId step : path(tip)) {
      const Node& node = state.nodes.at(step);
      if (std::find(node.slots.begin(), node.slots.end(), slot) == node.slots.end())
        return fmt::format("slot {} holds node {}, which does not know", slot, step);
    }
  }
  if (host != used(Tier::host))
    return fmt::format("I7: the host tier holds {} bytes, the books say {}", host, used(Tier::host));
  if (disk != used(Tier::disk))
    return fmt::format("I7: the disk tier holds {} bytes, the books say {}", disk, used(Tier::disk));
  if (parts.size() != state.part_uses.size() || records.size() != state.records.size())
    return "I7: the books name parts or records that no node has";
  for (const auto& [part, count] : parts) {
    if (state.part_uses.at(part) != count) return "I7: a part is counted for another number of nodes";
  }
  for (const auto& [record, count] : records) {
    if (state.records.at(record).count != count) return "I7: a record is counted for another number of nodes";
  }
  return "";
}

}  // namespace gezel::kvcache
