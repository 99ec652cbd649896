// capacity/neighbour.h
//
// Good-neighbour mode: when other programs want the processor, models step back until they are done.
//
// Pure policy: the share that others use in, a state out.
#pragma once
#include <cstdint>
#include <optional>

namespace gezel::capacity {

inline constexpr int kOthersBusyPermille = 500;  // of the processors that this process may use
inline constexpr std::int64_t kYieldAfterMs = 10'000, kReturnAfterMs = 60'000;
inline constexpr int kYieldNice = 10;
inline constexpr std::int64_t kYieldIdleMs = 60'000;

struct NeighbourState {
  bool yielding = false;
  // Since when others have been busy, or not. Only the one that may change the mode is kept.
  std::optional<std::int64_t> turning_since_ms;
};
// How long others are busy, or are not, before the mode changes.
struct NeighbourPatience {
  std::int64_t yield_ms = kYieldAfterMs, return_ms = kReturnAfterMs;
};
// `others_permille`: system::others_permille(); nothing: unknown, changes nothing.
NeighbourState next_neighbour(const NeighbourState& state, std::optional<int> others_permille,
                              std::int64_t now_ms, const NeighbourPatience& patience = {});

struct NeighbourOrders {
  int nice = 0;
  int threads = 1;
  std::optional<std::int64_t> idle_unload_ms;  // shorter than the usual idle timeout
};
// `threads` is what the engine would use. Under memory pressure idle models leave early, too.
NeighbourOrders neighbour_orders(const NeighbourState& state, int threads, bool pressured);

}  // namespace gezel::capacity
