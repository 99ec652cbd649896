#include "system/memory_speed.h"

#include <gtest/gtest.h>

namespace gezel::system {
namespace {

// Each look at it is a millisecond later: what comes out depends on the passes alone.
class StepClock final : public Clock {
 public:
  MonotonicTime now() const override { return MonotonicTime(Millis(++steps_)); }
  WallTime wall_now() const override { return {}; }

 private:
  mutable int steps_ = 0;
};

TEST(MemorySpeed, IsTheBytesOfAPassByItsTime) {
  const StepClock clock;
  const auto speed = measure_memory_speed(1, 16 * kLeastSpeedBuffer, clock);
  ASSERT_TRUE(speed);
  EXPECT_DOUBLE_EQ(*speed, static_cast<double>(kLeastSpeedBuffer) * 1'000);
}

TEST(MemorySpeed, IsUnknownWhereMemoryIsShort) {
  const StepClock clock;
  EXPECT_FALSE(measure_memory_speed(2, 16 * kLeastSpeedBuffer - 16, clock));
  EXPECT_FALSE(measure_memory_speed(0, kGiB, clock));
}

TEST(MemorySpeed, ThisMachineHasOneForEveryThread) {
  const SystemClock clock;
  const auto speed = measure_memory_speed(2, 16 * kLeastSpeedBuffer, clock);
  ASSERT_TRUE(speed);
  EXPECT_GT(*speed, 0);
}

}  // namespace
}  // namespace gezel::system
