#include "calibration/bench.h"

#include <gtest/gtest.h>

#include <deque>

namespace gezel::calibration {
namespace {

// An engine whose calls take the times that a test says.
struct FakeEngine final : BenchEngine {
  explicit FakeEngine(ManualClock& c) : clock(c) {}
  Result<> open(const protocol::Measure&) override {
    ++opened;
    clock.advance(opening);
    if (refuses) return fail(ErrorKind::unavailable, "engine-out-of-memory", "no memory");
    return {};
  }
  void close() override { ++closed; }
  Bytes memory() const override { return 77; }
  Result<> set_depth(int streams, std::int64_t depth) override {
    deepest = std::max(deepest, depth);
    widest = std::max(widest, streams);
    return {};
  }
  llama::DecodeCode call(const protocol::Measure&) override {
    const Millis time = times.empty() ? Millis(10) : times.front();
    if (!times.empty()) times.pop_front();
    clock.advance(time);
    cpu += static_cast<double>(time.count()) * share;
    ++calls;
    if (during) during();
    return code;
  }

  ManualClock& clock;
  std::deque<Millis> times;
  Millis opening{5};
  double share = 1, cpu = 0;
  bool refuses = false;
  int opened = 0, closed = 0, calls = 0, widest = 0;
  std::int64_t deepest = 0;
  llama::DecodeCode code = llama::DecodeCode::ok;
  std::function<void()> during;
};

struct BenchTest : testing::Test {
  ManualClock clock;
  FakeEngine engine{clock};
  std::atomic<bool> interrupted{false};
  Bench bench{engine, clock, [this] { return engine.cpu; }, interrupted};
  static protocol::Measure decode(std::int64_t streams = 1, std::int64_t depth = 0) {
    protocol::Measure measure;
    measure.id = 9;
    measure.streams = 4;
    measure.context = 2560;
    measure.tokens = streams;
    measure.depth = depth;
    return measure;
  }
};

TEST_F(BenchTest, TheFastestCallCountsAndTheSecondFastestIsTold) {
  engine.times = {Millis(30), Millis(20), Millis(25), Millis(40)};
  engine.share = 0.5;
  const auto out = bench.run(decode(4, 2048));
  EXPECT_EQ(out.id, 9U);
  EXPECT_EQ(out.outcome, "measured");
  EXPECT_EQ(out.ms, 20);
  EXPECT_EQ(out.next_ms, 25);
  EXPECT_EQ(out.cpu_ms, 10);
  EXPECT_EQ(out.memory_bytes, 77U);
  EXPECT_EQ(engine.calls, 4);  // 115 ms are enough
  EXPECT_EQ(engine.widest, 4);
  EXPECT_EQ(engine.deepest, 2048);
  EXPECT_EQ(out.spent_ms, 5 + 30 + 20 + 25 + 40);
}

TEST_F(BenchTest, ALongCallIsMadeOnce) {
  engine.times = {Millis(200)};
  const auto out = bench.run(decode());
  EXPECT_EQ(engine.calls, 1);
  EXPECT_EQ(out.ms, 200);
  EXPECT_EQ(out.next_ms, 0);
}

TEST_F(BenchTest, ShortCallsAreMadeAFewTimes) {
  engine.times.assign(100, Millis(1));
  bench.run(decode());
  EXPECT_EQ(engine.calls, kMostCalls);
}

TEST_F(BenchTest, TheContextIsMadeOncePerSettingAndGivenBack) {
  bench.run(decode());
  bench.run(decode(2, 2048));
  EXPECT_EQ(engine.opened, 1);
  auto other = decode();
  other.flash_attention = true;
  bench.run(other);
  EXPECT_EQ(engine.opened, 2);
  const int closed = engine.closed;
  protocol::Measure release;
  release.release = true;
  EXPECT_EQ(bench.run(release).outcome, "released");
  EXPECT_EQ(engine.closed, closed + 1);
  bench.run(other);
  EXPECT_EQ(engine.opened, 3);
}

TEST_F(BenchTest, AfterALongPreparationTheMeasurementIsAskedForAgain) {
  engine.opening = Millis(150);
  EXPECT_EQ(bench.run(decode()).outcome, "prepared");
  EXPECT_EQ(engine.calls, 0);
  EXPECT_EQ(bench.run(decode()).outcome, "measured");
  EXPECT_EQ(engine.opened, 1);
}

// Spec 35, case 3.
TEST_F(BenchTest, ARequestEndsItAndNothingIsKept) {
  engine.during = [this] { interrupted = engine.calls == 2; };
  const auto out = bench.run(decode());
  EXPECT_EQ(out.outcome, "interrupted");
  EXPECT_EQ(engine.calls, 2);
  EXPECT_EQ(bench.run(decode()).outcome, "interrupted");
  EXPECT_EQ(engine.calls, 2);
}

TEST_F(BenchTest, AnAbortedCallIsAnInterruption) {
  engine.code = llama::DecodeCode::aborted;
  EXPECT_EQ(bench.run(decode()).outcome, "interrupted");
}

TEST_F(BenchTest, WhatCannotBeMadeIsRefusedWithTheReason) {
  engine.refuses = true;
  const auto out = bench.run(decode());
  EXPECT_EQ(out.outcome, "refused");
  EXPECT_EQ(out.reason, "no memory");
  engine.refuses = false;
  engine.code = llama::DecodeCode::failed;
  EXPECT_EQ(bench.run(decode()).outcome, "refused");
  EXPECT_EQ(bench.run(decode(5)).outcome, "refused");
}

}  // namespace
}  // namespace gezel::calibration
