// Eviction and what the disk gets: leaves first, by effective time (spec 40 section 11.9).
#include <algorithm>
#include <queue>
#include <set>

#include "kvcache/tree_state.h"

namespace gezel::kvcache {
namespace {

using std::chrono::seconds;

constexpr std::uint32_t kWorthDiskTokens = 512;
constexpr seconds kClassBonus[] = {seconds(1800), seconds(300), seconds(0)};

std::size_t index(Tier tier) {
  return static_cast<std::size_t>(tier);
}

bool qualifies(const Node& node) {
  return node.pins > 0 || (node.end >= kWorthDiskTokens && (node.hits > 0 || node.cls != Class::tail));
}

}  // namespace

Bytes Tree::used(Tier tier) const {
  return state_->used[index(tier)];
}
Bytes Tree::budget(Tier tier) const {
  return tier == Tier::host ? state_->options.host_budget : state_->options.disk_budget;
}
void Tree::set_budget(Tier tier, Bytes bytes) {
  (tier == Tier::host ? state_->options.host_budget : state_->options.disk_budget) = bytes;
}

MonotonicTime Tree::effective_time(const Node& node) {
  return node.last_use + kClassBonus[static_cast<std::size_t>(node.cls)] +
         seconds(60) * std::min<std::uint32_t>(node.hits, 10);
}

bool Tree::State::may_go(const Node& node, Tier tier) const {
  if (node.refs > 0 || node.pins > 0) return false;
  if (tier == Tier::host ? !node.has_host() : !node.disk) return false;
  if (!rows_mode()) return true;  // checkpoints of recurrent models need nothing above them
  if (tier == Tier::disk) return !any_kid(node, [](const Node& kid) { return kid.has_rows(); });
  return !any_kid(node, [&](const Node& kid) {
    // A kid that only a slot holds has its parent there too; one on disk needs its parent there.
    return kid.has_host() || (kid.disk && !node.disk);
  });
}

bool Tree::State::drop_tier(NodeId id, Tier tier, Tree::Dropped& dropped) {
  Node* node = get(id);
  if (node == nullptr) return false;
  const Bytes before = used[index(tier)];
  ++dropped.nodes[static_cast<std::size_t>(node->cls)];
  if (tier == Tier::host) {
    remove_host(*node);
  } else {
    remove_disk(*node);
  }
  settle(id);
  dropped.bytes += before - used[index(tier)];
  return true;
}

void Tree::State::trim(Tier tier, const std::function<bool()>& enough,
                       const std::function<bool(NodeId)>& keep, Tree::Dropped& dropped) {
  struct Candidate {
    MonotonicTime time;
    Bytes bytes;
    NodeId id;
    // The queue's top is its largest: the oldest, then the biggest, then the first made.
    bool operator<(const Candidate& other) const {
      return std::tuple(other.time, bytes, other.id) < std::tuple(time, other.bytes, id);
    }
  };
  if (enough()) return;
  std::priority_queue<Candidate> queue;
  const auto offer = [&](NodeId id) {
    const Node* node = get(id);
    if (node != nullptr && may_go(*node, tier))
      queue.push({Tree::effective_time(*node), share_of(*node, tier), id});
  };
  for (const auto& [id, node] : nodes) offer(id);
  const Bytes budget = tier == Tier::host ? options.host_budget : options.disk_budget;
  while (!queue.empty() && !enough()) {
    const NodeId id = queue.top().id;
    queue.pop();
    const Node* node = get(id);
    if (node == nullptr || !may_go(*node, tier)) continue;
    if (keep && used[index(tier)] <= budget && keep(id)) continue;
    const NodeId parent = node->parent;
    drop_tier(id, tier, dropped);
    offer(parent);
  }
}

NodeId Tree::victim(Tier tier) const {
  NodeId best = kNoNode;
  std::tuple<MonotonicTime, Bytes, NodeId> best_rank;
  for (const auto& [id, node] : state_->nodes) {
    if (!state_->may_go(node, tier)) continue;
    const std::tuple rank{effective_time(node), ~state_->share_of(node, tier), id};
    if (best != kNoNode && best_rank <= rank) continue;
    best = id;
    best_rank = rank;
  }
  return best;
}

Tree::Dropped Tree::relieve(Tier tier, const std::function<bool(NodeId)>& keep) {
  Dropped dropped;
  const Bytes limit = budget(tier);
  const Bytes& used = state_->used[index(tier)];
  if (used >= limit && (tier == Tier::host || limit > 0) && used > 0)
    state_->trim(tier, [&] { return used == 0 || used < limit / 5 * 4; }, keep, dropped);
  dropped.records = state_->take_freed();
  return dropped;
}

bool Tree::make_room(Tier tier, Bytes bytes, Dropped* dropped) {
  const Bytes limit = budget(tier);
  if (tier == Tier::disk && limit == 0) return true;
  if (bytes > limit) return false;
  Dropped mine;
  const auto enough = [&] { return state_->used[index(tier)] + bytes <= limit; };
  state_->trim(tier, enough, {}, mine);
  if (dropped != nullptr) {
    mine.records = state_->take_freed();
    *dropped = std::move(mine);
  }
  return enough();
}

bool Tree::could_make_room(Bytes bytes, NodeId stays) const {
  const Bytes limit = budget(Tier::host), held = used(Tier::host);
  if (bytes > limit) return false;
  if (held + bytes <= limit) return true;
  // Kids before parents: a node can go when its kids can.
  std::vector<std::pair<std::uint32_t, NodeId>> order;
  for (const auto& [id, node] : state_->nodes) order.emplace_back(node.end, id);
  std::ranges::sort(order, std::greater{});
  const std::vector<NodeId> kept = path(stays);
  std::set<NodeId> gone(kept.begin(), kept.end());  // not looked at
  Bytes freed = 0;
  for (const auto& [end, id] : order) {
    const Node& node = state_->nodes.at(id);
    if (node.refs > 0 || node.pins > 0 || !node.has_host() || gone.contains(id)) continue;
    const bool needed = state_->rows_mode() && std::ranges::any_of(node.kids, [&](const auto& entry) {
                          const Node& kid = state_->nodes.at(entry.second);
                          return (kid.has_host() && !gone.contains(entry.second)) || (kid.disk && !node.disk);
                        });
    if (needed) continue;
    gone.insert(id);
    freed += state_->share_of(node, Tier::host);
  }
  return held + bytes <= limit + freed;
}

NodeId Tree::next_write(bool everything) const {
  NodeId best = kNoNode;
  MonotonicTime best_time{};
  for (const auto& [id, node] : state_->nodes) {
    if (node.disk || !(everything || qualifies(node))) continue;
    // The topmost node above that is not on disk goes first: after a restart this one is reached through it.
    NodeId top = id;
    if (state_->rows_mode()) {
      for (NodeId up = node.parent; up != kNoNode; up = state_->nodes.at(up).parent) {
        if (!state_->nodes.at(up).disk) top = up;
      }
      if (state_->nodes.at(top).rows.empty()) continue;  // only a slot has it: export first
    } else if (!node.checkpoint) {
      continue;
    }
    const MonotonicTime time = effective_time(node);
    if (best != kNoNode && std::pair(best_time, top) >= std::pair(time, best)) continue;
    best = top;
    best_time = time;
  }
  return best;
}

Tree::Dropped Tree::drop(NodeId id) {
  Dropped dropped;
  if (find(id) == nullptr) return dropped;
  std::vector<NodeId> below{id};
  for (std::size_t i = 0; i < below.size(); ++i) {
    for (const auto& [key, kid] : state_->nodes.at(below[i]).kids) below.push_back(kid);
  }
  for (auto it = below.rbegin(); it != below.rend(); ++it) {
    for (const Tier tier : {Tier::host, Tier::disk}) {
      const Node* node = state_->get(*it);
      if (node != nullptr && state_->may_go(*node, tier)) state_->drop_tier(*it, tier, dropped);
    }
  }
  dropped.records = state_->take_freed();
  return dropped;
}

Tree::Dropped Tree::drop_session(std::uint64_t session) {
  Dropped dropped;
  std::vector<std::pair<std::uint32_t, NodeId>> own;
  const auto is_own = [&](const Node& node) {
    return !node.shared && node.tags.size() == 1 && node.tags.front() == session && node.pins == 0;
  };
  for (const auto& [id, node] : state_->nodes) {
    if (is_own(node)) own.emplace_back(node.end, id);
  }
  const auto tips = state_->slot_tips;
  for (const auto& [slot, tip] : tips) {
    NodeId stays = tip;
    while (stays != kNoNode && is_own(state_->nodes.at(stays))) stays = state_->nodes.at(stays).parent;
    if (stays == tip) continue;
    set_slot(slot, stays);
    dropped.slots.push_back(slot);
  }
  std::sort(own.rbegin(), own.rend());
  for (const auto& [end, id] : own) {
    for (const Tier tier : {Tier::host, Tier::disk}) {
      const Node* node = state_->get(id);
      if (node != nullptr && state_->may_go(*node, tier)) state_->drop_tier(id, tier, dropped);
    }
    const Node* node = state_->get(id);
    if (node != nullptr && node->refs > 0) ++dropped.in_use;
  }
  dropped.records = state_->take_freed();
  return dropped;
}

}  // namespace gezel::kvcache
