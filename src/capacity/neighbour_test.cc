#include "capacity/neighbour.h"

#include <gtest/gtest.h>

namespace gezel::capacity {
namespace {

TEST(Neighbour, ModelsStepBackAfterTenSecondsAndReturnAfterAMinute) {
  NeighbourState state = next_neighbour({}, 500, 0);
  EXPECT_FALSE(next_neighbour(state, 800, 9'999).yielding);
  state = next_neighbour(state, 800, 10'000);
  EXPECT_TRUE(state.yielding);
  state = next_neighbour(state, 499, 20'000);
  EXPECT_TRUE(next_neighbour(state, 0, 79'999).yielding);
  EXPECT_FALSE(next_neighbour(state, 0, 80'000).yielding);
  state = next_neighbour(state, 600, 50'000);  // the minute begins again
  state = next_neighbour(state, 0, 60'000);
  EXPECT_TRUE(next_neighbour(state, 0, 110'000).yielding);
}

TEST(Neighbour, AShortBurstChangesNothing) {
  NeighbourState state = next_neighbour({}, 900, 0);
  state = next_neighbour(state, 100, 5'000);
  EXPECT_FALSE(next_neighbour(state, 900, 12'000).yielding);
  EXPECT_FALSE(next_neighbour(state, std::nullopt, 99'000).yielding);
}

TEST(Neighbour, OrdersAreHalfTheThreadsAtLowerPriority) {
  const NeighbourState yielding{.yielding = true};
  EXPECT_EQ(neighbour_orders({}, 8, true).nice, 0);
  EXPECT_EQ(neighbour_orders({}, 8, true).threads, 8);
  EXPECT_EQ(neighbour_orders({}, 8, true).idle_unload_ms, std::nullopt);
  EXPECT_EQ(neighbour_orders(yielding, 8, false).nice, 10);
  EXPECT_EQ(neighbour_orders(yielding, 9, false).threads, 4);
  EXPECT_EQ(neighbour_orders(yielding, 1, false).threads, 1);
  EXPECT_EQ(neighbour_orders(yielding, 8, false).idle_unload_ms, std::nullopt);
  EXPECT_EQ(neighbour_orders(yielding, 8, true).idle_unload_ms, 60'000);
}

}  // namespace
}  // namespace gezel::capacity
