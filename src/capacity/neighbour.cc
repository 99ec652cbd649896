#include "capacity/neighbour.h"

#include <algorithm>

namespace gezel::capacity {

NeighbourState next_neighbour(const NeighbourState& state, std::optional<int> others_permille,
                              std::int64_t now_ms, const NeighbourPatience& patience) {
  if (!others_permille) return state;
  const bool busy = *others_permille >= kOthersBusyPermille;
  NeighbourState next = state;
  if (busy == state.yielding) {
    next.turning_since_ms.reset();
    return next;
  }
  if (!next.turning_since_ms) next.turning_since_ms = now_ms;
  const std::int64_t wait_ms = state.yielding ? patience.return_ms : patience.yield_ms;
  if (now_ms - *next.turning_since_ms >= wait_ms) return {.yielding = !state.yielding};
  return next;
}

NeighbourOrders neighbour_orders(const NeighbourState& state, int threads, bool pressured) {
  if (!state.yielding) return {.threads = threads};
  NeighbourOrders orders{.nice = kYieldNice, .threads = std::max(1, threads / 2)};
  if (pressured) orders.idle_unload_ms = kYieldIdleMs;
  return orders;
}

}  // namespace gezel::capacity
