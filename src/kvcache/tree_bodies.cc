// Bodies: where the rows of nodes lie, and what each tier holds. Parts and records are counted when their
// first node takes them and no longer when the last one loses them.
#include <fmt/format.h>

#include <algorithm>

#include "kvcache/tree_state.h"

namespace gezel::kvcache {
namespace {

constexpr std::size_t kCheckpointsPerPath = 8;
constexpr std::size_t kLastCheckpoints = 3;

std::size_t index(Tier tier) {
  return static_cast<std::size_t>(tier);
}

}  // namespace

void Tree::State::add_rows(Node& node, std::vector<Piece> rows) {
  for (const Piece& piece : rows) {
    if (part_uses[piece.part.get()]++ == 0) used[index(Tier::host)] += piece.part->bytes.size();
  }
  node.rows = std::move(rows);
}

void Tree::State::add_checkpoint(Node& node, std::shared_ptr<const Checkpoint> checkpoint) {
  used[index(Tier::host)] += checkpoint->bytes.size();
  node.checkpoint = std::move(checkpoint);
}

void Tree::State::add_disk(Node& node, DiskRef record) {
  RecordUse& use = records[record->id];
  if (use.count++ == 0) {
    use.record = record;
    used[index(Tier::disk)] += record->bytes;
  }
  node.disk = use.record;
}

void Tree::State::remove_checkpoint(Node& node) {
  if (!node.checkpoint) return;
  used[index(Tier::host)] -= node.checkpoint->bytes.size();
  node.checkpoint.reset();
}

void Tree::State::remove_host(Node& node) {
  remove_checkpoint(node);
  for (const Piece& piece : node.rows) {
    const auto use = part_uses.find(piece.part.get());
    if (--use->second > 0) continue;
    used[index(Tier::host)] -= piece.part->bytes.size();
    part_uses.erase(use);
  }
  node.rows.clear();
}

void Tree::State::remove_disk(Node& node) {
  if (!node.disk) return;
  const auto use = records.find(node.disk->id);
  node.disk.reset();
  if (--use->second.count > 0) return;
  used[index(Tier::disk)] -= use->second.record->bytes;
  freed_records.push_back(use->first);
  records.erase(use);
}

void Tree::set_slot(int slot, NodeId id) {
  const auto mark = [&](Node& node, bool in) {
    const auto found = std::find(node.slots.begin(), node.slots.end(), slot);
    if (in && found == node.slots.end()) {
      node.slots.insert(std::upper_bound(node.slots.begin(), node.slots.end(), slot), slot);
    } else if (!in && found != node.slots.end()) {
      node.slots.erase(found);
    }
  };
  std::vector<NodeId> old_path, new_path = path(id);
  if (const auto tip = state_->slot_tips.find(slot); tip != state_->slot_tips.end()) {
    old_path = path(tip->second);
    state_->slot_tips.erase(tip);
  }
  for (const NodeId step : new_path) mark(state_->nodes.at(step), true);
  if (!new_path.empty()) state_->slot_tips[slot] = id;
  for (const NodeId step : old_path) {
    if (std::find(new_path.begin(), new_path.end(), step) != new_path.end()) continue;
    mark(state_->nodes.at(step), false);
  }
  for (auto it = old_path.rbegin(); it != old_path.rend(); ++it) state_->settle(*it);
}

bool Tree::set_rows(NodeId id, std::vector<Piece> rows) {
  Node* node = state_->get(id);
  if (node == nullptr || !node->rows.empty() || !state_->rows_mode()) return false;
  std::uint64_t tokens = 0;
  for (const Piece& piece : rows) {
    if (!piece.part || piece.from >= piece.to || piece.to > piece.part->tokens) return false;
    tokens += piece.tokens();
  }
  const Node* parent = state_->get(node->parent);
  if (tokens != node->end - node->start || (parent != nullptr && !parent->has_rows())) return false;
  state_->add_rows(*node, std::move(rows));
  return true;
}

bool Tree::set_checkpoint(NodeId id, std::shared_ptr<const Checkpoint> checkpoint) {
  Node* node = state_->get(id);
  if (node == nullptr || !checkpoint || node->checkpoint || (state_->rows_mode() && !node->has_rows()))
    return false;
  state_->add_checkpoint(*node, std::move(checkpoint));
  return true;
}

bool Tree::set_disk(NodeId id, DiskRef record) {
  Node* node = state_->get(id);
  if (node == nullptr || !record || node->disk || record->start > node->start || record->end < node->end)
    return false;
  const Node* parent = state_->get(node->parent);
  if (state_->rows_mode() && parent != nullptr && !parent->has_rows()) return false;
  state_->add_disk(*node, std::move(record));
  return true;
}

Bytes Tree::restore(const Digest& record, std::span<const Part> parts, std::optional<Checkpoint> checkpoint) {
  std::vector<NodeId> users;
  for (const auto& [id, node] : state_->nodes) {
    if (node.disk && node.disk->id == record) users.push_back(id);
  }
  std::sort(users.begin(), users.end(), [&](NodeId a, NodeId b) { return find(a)->start < find(b)->start; });
  for (const NodeId id : users) acquire(id);  // room for one is not made by evicting another
  Bytes kept = 0;
  for (const NodeId user : users) {
    NodeId id = user;
    const DiskRef ref = find(id)->disk;
    std::uint32_t held = ref->start;  // where the parts end
    for (const Part& part : parts) held += part->tokens;
    const Node* node = find(id);
    if (state_->rows_mode() && node->rows.empty() && held > node->start) {
      if (held < node->end) {
        const auto good = static_cast<std::uint32_t>(outside_media(node->edge, held - node->start));
        if (good == 0 || state_->options.mode != Mode::full) break;
        id = state_->split(id, good);
        node = find(id);
      }
      std::vector<Piece> rows;
      Bytes bytes = 0;
      std::uint32_t at = ref->start;
      for (const Part& part : parts) {
        const std::uint32_t from = std::max(at, node->start), to = std::min(at + part->tokens, node->end);
        if (from < to) {
          rows.push_back({part, from - at, to - at});
          if (!state_->part_uses.contains(part.get())) bytes += part->bytes.size();
        }
        at += part->tokens;
      }
      if (!make_room(Tier::host, bytes) || !set_rows(id, std::move(rows))) break;
      kept += bytes;
    }
    node = find(id);
    if (checkpoint && node->end == ref->end && !node->checkpoint) {
      const Bytes bytes = checkpoint->bytes.size();
      if (make_room(Tier::host, bytes) &&
          set_checkpoint(id, std::make_shared<const Checkpoint>(std::move(*checkpoint))))
        kept += bytes;
      checkpoint.reset();
    }
  }
  for (const NodeId id : users) release(id);
  return kept;
}

void Tree::forget_record(const Digest& record) {
  std::vector<NodeId> users;
  for (auto& [id, node] : state_->nodes) {
    if (node.disk && node.disk->id == record) users.push_back(id);
  }
  for (const NodeId id : users) {
    Node* node = state_->get(id);
    if (node == nullptr) continue;  // an earlier one took it along
    state_->remove_disk(*node);
    state_->settle(id);
  }
}

Bytes Tree::absorb(NodeId id, const Image& image, std::uint32_t first) {
  if (find(id) == nullptr) return 0;
  const std::uint64_t image_end = std::uint64_t{first} + image.tokens();
  Bytes kept = 0;
  acquire(id);  // room is not made by evicting this very path
  for (const NodeId step : path(id)) {
    if (!state_->rows_mode()) break;
    const Node* node = find(step);
    if (!node->rows.empty()) continue;
    if (node->start < first || node->end > image_end) {
      if (node->disk) continue;
      break;  // only a slot has these rows: what hangs below would be lost with it
    }
    const Bytes bytes = (node->end - node->start) * image.layout().rows.token_bytes();
    if (!make_room(Tier::host, bytes)) break;
    auto parts = image.cut_parts(node->start - first, node->end - first);
    if (!parts) break;
    std::vector<Piece> rows;
    for (Part& part : *parts) {
      const std::uint32_t tokens = part->tokens;
      rows.push_back({std::move(part), 0, tokens});
    }
    if (!set_rows(step, std::move(rows))) break;
    kept += bytes;
  }
  const Node* node = find(id);
  if (needs_checkpoint(state_->options.mode) && !node->checkpoint && node->end == image_end) {
    if (auto checkpoint = image.checkpoint()) {
      const Bytes bytes = checkpoint->bytes.size();
      if (make_room(Tier::host, bytes) &&
          set_checkpoint(id, std::make_shared<const Checkpoint>(std::move(*checkpoint))))
        kept += bytes;
    }
  }
  release(id);
  return kept;
}

bool Tree::adopt(const Digest& domain, std::span<const Key> keys, DiskRef record, Class cls,
                 std::span<const std::uint64_t> tags, bool shared, MonotonicTime last_use) {
  if (!record || record->end != keys.size() || record->start >= record->end) return false;
  if (state_->records.contains(record->id)) return true;
  const bool rows = state_->rows_mode();
  const Match before = match(domain, keys);
  if (rows && before.matched < record->start) return false;
  for (const NodeId id : before.path) {
    if (rows && !find(id)->has_rows()) return false;
  }
  // Ends at both sides, so that the record covers whole nodes.
  if (rows && record->start > 0 && state_->ensure_end(domain, keys, record->start, cls) == kNoNode)
    return false;
  const std::size_t count = state_->nodes.size();
  const NodeId tip = state_->ensure_end(domain, keys, record->end, cls);
  if (tip == kNoNode) return false;
  const bool fresh = state_->nodes.size() > count;
  bool used = false;
  for (const NodeId id : path(tip)) {
    Node& node = state_->nodes.at(id);
    if (node.disk || (rows ? node.start < record->start : id != tip)) continue;
    state_->add_disk(node, record);
    used = true;
    if (!fresh) continue;
    node.last_use = std::max(node.last_use, last_use);
    for (const std::uint64_t session : tags) tag(id, session);
    node.shared = node.shared || shared;
  }
  return used;
}

void Tree::thin_checkpoints(NodeId id) {
  std::vector<NodeId> holders;
  std::size_t system_end = 0;
  for (const NodeId step : path(id)) {
    const Node& node = state_->nodes.at(step);
    if (!node.checkpoint) continue;
    if (node.cls == Class::system) system_end = holders.size();
    holders.push_back(step);
  }
  if (holders.size() <= kCheckpointsPerPath) return;
  const std::size_t tail = holders.size() - kLastCheckpoints;
  std::vector<std::size_t> middle;
  for (std::size_t i = 0; i < tail; ++i) {
    if (i != system_end) middle.push_back(i);
  }
  const std::size_t wanted = kCheckpointsPerPath - kLastCheckpoints - (system_end < tail ? 1 : 0);
  std::vector<bool> keep(holders.size(), false);
  for (std::size_t i = tail; i < holders.size(); ++i) keep[i] = true;
  keep[system_end] = true;
  for (std::size_t i = 0; i < wanted; ++i) keep[middle[(2 * i + 1) * middle.size() / (2 * wanted)]] = true;
  for (std::size_t i = 0; i < holders.size(); ++i) {
    if (keep[i]) continue;
    state_->remove_checkpoint(state_->nodes.at(holders[i]));
    state_->prune(holders[i]);
  }
}

Bytes Tree::State::share_of(const Node& node, Tier tier) const {
  if (tier == Tier::disk) {
    return node.disk ? node.disk->bytes * (node.end - node.start) / (node.disk->end - node.disk->start) : 0;
  }
  Bytes sum = node.checkpoint ? node.checkpoint->bytes.size() : 0;
  for (const Piece& piece : node.rows) sum += piece.part->bytes.size() * piece.tokens() / piece.part->tokens;
  return sum;
}

Bytes Tree::bytes(NodeId id, Tier tier) const {
  const Node* node = find(id);
  return node == nullptr ? 0 : state_->share_of(*node, tier);
}

Result<> Tree::pin(NodeId id) {
  if (find(id) == nullptr)
    return fail(ErrorKind::not_found, "cache-node-unknown", "The cache has no such node (any more).", "id");
  for (const Tier tier : {Tier::host, Tier::disk}) {
    if (budget(tier) == 0) continue;
    Bytes pinned = 0;
    for (const auto& [other, node] : state_->nodes) {
      if (node.pins > 0) pinned += state_->share_of(node, tier);
    }
    for (const NodeId step : path(id)) {
      const Node& node = state_->nodes.at(step);
      if (node.pins == 0) pinned += state_->share_of(node, tier);
    }
    if (pinned > budget(tier) / 2) {
      return fail(
          ErrorKind::conflict, "cache-pin-limit",
          fmt::format("With this pin {} of the {} budget of {} would be pinned; at most half may be. Unpin "
                      "something or raise the budget.",
                      format_bytes(pinned), tier == Tier::host ? "memory" : "disk",
                      format_bytes(budget(tier))),
          "id");
    }
  }
  for (Node* node = state_->get(id); node != nullptr; node = state_->get(node->parent)) ++node->pins;
  return {};
}

void Tree::unpin(NodeId id) {
  if (!pinned_here(id)) return;
  for (Node* node = state_->get(id); node != nullptr; node = state_->get(node->parent)) --node->pins;
  state_->prune(id);
}

bool Tree::pinned_here(NodeId id) const {
  const Node* node = find(id);
  if (node == nullptr) return false;
  std::uint32_t below = 0;
  for (const auto& [key, kid] : node->kids) below += state_->nodes.at(kid).pins;
  return node->pins > below;
}

}  // namespace gezel::kvcache
