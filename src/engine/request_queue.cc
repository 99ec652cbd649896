#include "engine/request_queue.h"

#include <algorithm>
#include <tuple>

namespace gezel::engine {
namespace {

// Smaller goes first: starving requests (batch work never starves, it waits for idle), then by lane, then by
// age.
auto rank(prompt::Lane lane, MonotonicTime since, MonotonicTime now) {
  const bool starving = lane != prompt::Lane::batch && now - since > RequestQueue::kStarving;
  return std::tuple(!starving, static_cast<int>(lane), since);
}

}  // namespace

bool RequestQueue::push(std::uint64_t id, prompt::Lane lane, MonotonicTime since) {
  if (waiting_.size() >= kMaxWaiting) return false;
  waiting_.push_back({id, lane, since});
  return true;
}

std::optional<std::uint64_t> RequestQueue::pop(MonotonicTime now) {
  auto first = std::ranges::min_element(waiting_, {}, [now](const Entry& e) {
    return std::tuple_cat(rank(e.lane, e.since, now), std::tuple(e.id));
  });
  if (first == waiting_.end()) return std::nullopt;
  const auto id = first->id;
  waiting_.erase(first);
  return id;
}

bool RequestQueue::remove(std::uint64_t id) {
  return std::erase_if(waiting_, [id](const Entry& e) { return e.id == id; }) > 0;
}

std::size_t RequestQueue::ahead_of(std::uint64_t id, MonotonicTime now) const {
  auto self = std::ranges::find(waiting_, id, &Entry::id);
  if (self == waiting_.end()) return 0;
  const auto mine = std::tuple_cat(rank(self->lane, self->since, now), std::tuple(id));
  return static_cast<std::size_t>(std::ranges::count_if(waiting_, [&](const Entry& e) {
    return std::tuple_cat(rank(e.lane, e.since, now), std::tuple(e.id)) < mine;
  }));
}

}  // namespace gezel::engine
