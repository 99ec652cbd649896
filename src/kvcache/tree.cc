// Structure: matching, making, splitting and joining nodes. A split leaves the id with the lower part, where
// the checkpoint, the record's end and the runs attached belong; the upper part is a new node.
#include "kvcache/tree.h"

#include <algorithm>
#include <utility>

#include "kvcache/tree_state.h"

namespace gezel::kvcache {

Tree::Tree(TreeOptions options) : state_(std::make_unique<State>()) {
  state_->options = options;
}
Tree::~Tree() = default;
Tree::Tree(Tree&&) noexcept = default;
Tree& Tree::operator=(Tree&&) noexcept = default;

const Node* Tree::find(NodeId id) const {
  return state_->get(id);
}
std::size_t Tree::size() const {
  return state_->nodes.size();
}

void Tree::each(const std::function<void(NodeId, const Node&)>& visit) const {
  for (const auto& [id, node] : state_->nodes) visit(id, node);
}

Match Tree::match(const Digest& domain, std::span<const Key> keys) const {
  Match match;
  const auto root = state_->roots.find(domain);
  const Kids* kids = root == state_->roots.end() ? nullptr : &root->second;
  std::span<const Key> last;  // edge of the last node, when it matched in part
  while (kids != nullptr && match.matched < keys.size()) {
    const auto found = kids->find(keys[match.matched]);
    if (found == kids->end()) break;
    const Node& node = state_->nodes.at(found->second);
    const std::size_t common = common_prefix(keys.subspan(match.matched), node.edge);
    match.path.push_back(found->second);
    match.matched += static_cast<std::uint32_t>(common);
    if (common < node.edge.size()) {
      last = node.edge;
      break;
    }
    kids = &node.kids;
  }
  // The rows of a media span are used together or not at all.
  match.matched = static_cast<std::uint32_t>(outside_media(keys, match.matched));
  while (!match.path.empty()) {
    const Node& node = state_->nodes.at(match.path.back());
    if (match.matched > node.start && match.matched < node.end)
      match.matched =
          node.start + static_cast<std::uint32_t>(outside_media(node.edge, match.matched - node.start));
    if (match.matched > node.start) break;
    match.path.pop_back();
  }
  return match;
}

std::vector<NodeId> Tree::path(NodeId id) const {
  std::vector<NodeId> ids;
  for (const Node* node = find(id); node != nullptr; node = find(id = node->parent)) ids.push_back(id);
  std::reverse(ids.begin(), ids.end());
  return ids;
}

std::vector<Key> Tree::path_keys(NodeId id) const {
  std::vector<Key> keys;
  for (const NodeId step : path(id)) {
    const Node& node = state_->nodes.at(step);
    keys.insert(keys.end(), node.edge.begin(), node.edge.end());
  }
  return keys;
}

Digest Tree::hash_of(NodeId id) const {
  const Node* node = find(id);
  return node == nullptr ? Digest{} : prefix_hash(node->domain, path_keys(id));
}

NodeId Tree::State::add(NodeId parent, const Digest& domain, std::span<const Key> edge, std::uint32_t start,
                        Class cls) {
  const NodeId id = next_id++;
  Node& node = nodes[id];
  node.parent = parent;
  node.domain = domain;
  node.edge.assign(edge.begin(), edge.end());
  node.start = start;
  node.end = start + static_cast<std::uint32_t>(edge.size());
  node.cls = cls;
  kids_of(parent, domain)[edge.front()] = id;
  return id;
}

NodeId Tree::State::split(NodeId id, std::uint32_t count) {
  const NodeId upper_id = next_id++;
  Node& upper = nodes[upper_id];
  Node& lower = nodes.at(id);
  const auto cut = static_cast<std::ptrdiff_t>(count);
  upper.parent = lower.parent;
  upper.domain = lower.domain;
  upper.edge.assign(lower.edge.begin(), lower.edge.begin() + cut);
  upper.start = lower.start;
  upper.end = lower.start + count;
  upper.slots = lower.slots;
  upper.refs = lower.refs;
  upper.pins = lower.pins;
  upper.cls = lower.cls;
  upper.hits = lower.hits;
  upper.last_use = lower.last_use;
  upper.tags = lower.tags;
  upper.shared = lower.shared;

  std::vector<Piece> lower_rows;
  std::uint32_t left = count;
  for (Piece& piece : lower.rows) {
    const std::uint32_t above = std::min(left, piece.tokens());
    if (above > 0) upper.rows.push_back({piece.part, piece.from, piece.from + above});
    if (above < piece.tokens()) {
      if (above > 0) ++part_uses[piece.part.get()];  // straddles the cut: both have it
      lower_rows.push_back({piece.part, piece.from + above, piece.to});
    }
    left -= above;
  }
  lower.rows = std::move(lower_rows);
  if (rows_mode() && lower.disk) add_disk(upper, lower.disk);

  kids_of(upper.parent, upper.domain)[upper.edge.front()] = upper_id;
  lower.edge.erase(lower.edge.begin(), lower.edge.begin() + cut);
  lower.start = upper.end;
  lower.parent = upper_id;
  upper.kids[lower.edge.front()] = id;
  return upper_id;
}

NodeId Tree::State::ensure_end(const Digest& domain, std::span<const Key> keys, std::uint32_t end,
                               Class cls) {
  NodeId parent = kNoNode;
  std::uint32_t at = 0;
  while (at < end) {
    Kids& kids = kids_of(parent, domain);
    const auto found = kids.find(keys[at]);
    if (found == kids.end()) return add(parent, domain, keys.subspan(at, end - at), at, cls);
    const NodeId id = found->second;
    const Node& node = nodes.at(id);
    const auto common = static_cast<std::uint32_t>(common_prefix(keys.subspan(at, end - at), node.edge));
    if (common == node.edge.size()) {
      parent = id;
    } else if (outside_media(node.edge, common) != common ||
               outside_media(keys, at + common) != at + common) {
      return kNoNode;
    } else {
      parent = split(id, common);
    }
    at += common;
  }
  return parent;
}

NodeId Tree::commit(const Digest& domain, std::span<const Key> keys, std::uint32_t end, Class cls, int slot,
                    MonotonicTime now) {
  end = static_cast<std::uint32_t>(outside_media(keys, std::min<std::size_t>(end, keys.size())));
  const NodeId id = end == 0 ? kNoNode : state_->ensure_end(domain, keys, end, cls);
  if (id == kNoNode) return kNoNode;
  set_slot(slot, id);
  touch(id, now, false);
  return id;
}

void Tree::State::prune(NodeId id) {
  while (const Node* node = get(id)) {
    if (has_body(*node) || !node->kids.empty() || node->refs > 0 || node->pins > 0) return;
    const NodeId parent = node->parent;
    const Digest domain = node->domain;
    Kids& kids = kids_of(parent, domain);
    kids.erase(node->edge.front());
    if (parent == kNoNode && kids.empty()) roots.erase(domain);
    nodes.erase(id);
    id = parent;
  }
}

void Tree::State::settle(NodeId id) {
  const Node* node = get(id);
  if (node == nullptr) return;
  if (rows_mode() && !node->has_rows()) {
    // Whatever hangs below needs these rows. Collected first: pruning changes the maps.
    std::vector<NodeId> below{id};
    for (std::size_t i = 0; i < below.size(); ++i) {
      for (const auto& [key, kid] : nodes.at(below[i]).kids) below.push_back(kid);
    }
    for (const NodeId lost : below) {
      remove_host(nodes.at(lost));
      remove_disk(nodes.at(lost));
    }
    for (auto it = below.rbegin(); it != below.rend(); ++it) prune(*it);
    return;
  }
  prune(id);
}

void Tree::State::merge_into(NodeId parent_id, NodeId kid_id) {
  Node& parent = nodes.at(parent_id);
  Node& kid = nodes.at(kid_id);
  kids_of(parent.parent, parent.domain)[parent.edge.front()] = kid_id;
  std::vector<Piece> rows = std::move(parent.rows);
  for (Piece& piece : kid.rows) {
    // The halves of a split part become one piece again.
    if (!rows.empty() && rows.back().part == piece.part && rows.back().to == piece.from) {
      rows.back().to = piece.to;
      --part_uses[piece.part.get()];
    } else {
      rows.push_back(std::move(piece));
    }
  }
  kid.rows = std::move(rows);
  parent.edge.insert(parent.edge.end(), kid.edge.begin(), kid.edge.end());
  kid.edge = std::move(parent.edge);
  kid.start = parent.start;
  kid.parent = parent.parent;
  kid.hits = std::max(kid.hits, parent.hits);
  kid.last_use = std::max(kid.last_use, parent.last_use);
  remove_host(parent);  // its checkpoint, if any: of no use in this mode
  remove_disk(parent);
  nodes.erase(parent_id);
}

std::size_t Tree::merge() {
  if (state_->options.mode != Mode::full) return 0;
  std::vector<NodeId> ids;
  for (const auto& [id, node] : state_->nodes) ids.push_back(id);
  std::size_t merged = 0;
  for (const NodeId id : ids) {
    const Node* node = state_->get(id);
    if (node == nullptr || node->kids.size() != 1 || node->refs > 0 || node->pins > 0) continue;
    const NodeId kid_id = node->kids.begin()->second;
    const Node& kid = state_->nodes.at(kid_id);
    // Nothing may be lost: what one has the other must have.
    const bool same = kid.refs == 0 && kid.pins == 0 && kid.cls == node->cls && kid.tags == node->tags &&
                      kid.shared == node->shared && kid.slots == node->slots && kid.disk == node->disk &&
                      kid.rows.empty() == node->rows.empty();
    const bool slot_ends_here = std::any_of(state_->slot_tips.begin(), state_->slot_tips.end(),
                                            [&](const auto& tip) { return tip.second == id; });
    if (!same || slot_ends_here) continue;
    state_->merge_into(id, kid_id);
    ++merged;
  }
  return merged;
}

const Node* Tree::State::follow(const Digest& domain, std::span<const std::int32_t> tokens,
                                TreePlace& place) const {
  const Node* node = get(place.node);
  if (node == nullptr || place.matched > tokens.size()) {  // evicted, or joined with what is below
    place = {};
    node = nullptr;
  }
  // A split leaves the id with the lower part; the place may be in what is above it now.
  while (node != nullptr && place.matched <= node->start) {
    place.node = node->parent;
    node = get(place.node);
  }
  while (place.matched < tokens.size()) {
    if (node == nullptr || place.matched == node->end) {
      const Kids* kids = find_kids(node, domain);
      const auto kid =
          kids == nullptr ? Kids::const_iterator{} : kids->find(token_key(tokens[place.matched]));
      if (kids == nullptr || kid == kids->end()) break;
      place.node = kid->second;
      node = get(place.node);
    }
    const auto left = std::span(node->edge).subspan(place.matched - node->start);
    const auto new_tokens = tokens.subspan(place.matched);
    const auto parted = std::ranges::mismatch(left, new_tokens, {}, {}, token_key).in1;
    place.matched += static_cast<std::uint32_t>(parted - left.begin());
    if (place.matched < node->end) break;
  }
  return node;
}

std::vector<Key> Tree::State::latest_from(const Node* node, std::uint32_t matched, const Digest& domain,
                                          std::size_t limit) const {
  std::vector<Key> next;
  const auto add = [&](std::span<const Key> keys) {
    const auto some = keys.first(std::min(keys.size(), limit - next.size()));
    next.insert(next.end(), some.begin(), some.end());
  };
  if (node != nullptr) add(std::span(node->edge).subspan(matched - node->start));
  const Kids* kids = find_kids(node, domain);
  while (kids != nullptr && next.size() < limit && !kids->empty()) {
    const auto latest = std::max_element(kids->begin(), kids->end(), [&](const auto& a, const auto& b) {
      const Node &x = nodes.at(a.second), &y = nodes.at(b.second);
      return std::pair(x.last_use, a.second) < std::pair(y.last_use, b.second);
    });
    const Node& kid = nodes.at(latest->second);
    add(kid.edge);
    kids = &kid.kids;
  }
  return next;
}

std::vector<Key> Tree::continuation(const Digest& domain, std::span<const std::int32_t> tokens,
                                    std::size_t limit, TreePlace& place) const {
  const Node* node = state_->follow(domain, tokens, place);
  if (place.matched < tokens.size()) return {};
  return state_->latest_from(node, place.matched, domain, limit);
}

std::vector<Key> Tree::behind_match(const Digest& domain, std::span<const Key> keys,
                                    std::size_t limit) const {
  const Match found = match(domain, keys);
  return state_->latest_from(found.path.empty() ? nullptr : find(found.path.back()), found.matched, domain,
                             limit);
}

void Tree::acquire(NodeId id) {
  for (Node* node = state_->get(id); node != nullptr; node = state_->get(node->parent)) ++node->refs;
}

void Tree::release(NodeId id) {
  for (Node* node = state_->get(id); node != nullptr; node = state_->get(node->parent)) {
    if (node->refs > 0) --node->refs;
  }
  state_->prune(id);
}

void Tree::touch(NodeId id, MonotonicTime now, bool hit) {
  for (Node* node = state_->get(id); node != nullptr; node = state_->get(node->parent)) {
    node->last_use = std::max(node->last_use, now);
    if (hit) ++node->hits;
  }
}

void Tree::tag(NodeId id, std::uint64_t session) {
  for (Node* node = state_->get(id); node != nullptr; node = state_->get(node->parent)) {
    if (std::find(node->tags.begin(), node->tags.end(), session) != node->tags.end()) continue;
    if (node->tags.size() < kMaxTags) {
      node->tags.push_back(session);
    } else {
      node->shared = true;
    }
  }
}

}  // namespace gezel::kvcache
