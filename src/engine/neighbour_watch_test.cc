// A machine of one processor as a folder, and a clock that is moved by hand.
#include "engine/neighbour_watch.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>

#include "system/test_tree.h"

namespace gezel::engine {
namespace {

constexpr int kDaemon = 10, kWorker = 11;

class NeighbourWatchTest : public testing::Test {
 protected:
  NeighbourWatchTest() {
    write();
    watch->start([this] { return ours; }, [this](Manners manners) { told.push_back(manners); });
  }
  // Look after look, with so many percent of the processor used by others and by our worker.
  void pass(Millis time, int others, int worker = 0) {
    for (Millis left = time; left > Millis(0); left -= kNeighbourLook) {
      total += 200;  // ticks of two seconds
      others_used += 2 * others;
      worker_used += 2 * worker;
      write();
      timers->advance(kNeighbourLook, [this] { settle(); });
      settle();
    }
  }
  void settle() {
    io.restart();
    io.poll();
  }
  void write() {
    tree.file("proc/stat", fmt::format("cpu {} 0 0 {} 0 0 0\n", others_used + worker_used,
                                       total - others_used - worker_used));
    tree.file(fmt::format("proc/{}/stat", kWorker),
              fmt::format("11 (gezel-engine) S 1 7 7 0 -1 0 0 0 0 0 {} 0 0 0 20 0 1 0\n", worker_used));
  }

  system::testing::TestTree tree;
  int total = 0, others_used = 0, worker_used = 0;
  std::vector<int> ours{kDaemon, kWorker};
  bool pressured = false, broken = false;
  std::vector<Manners> told;
  asio::io_context io;
  ManualClock clock;
  std::shared_ptr<ManualTimers> timers = std::make_shared<ManualTimers>(clock);
  std::shared_ptr<NeighbourWatch> watch = std::make_shared<NeighbourWatch>(
      NeighbourWatch::Parts{.loop = io.get_executor(),
                            .pool = io.get_executor(),
                            .clock = clock,
                            .timers = timers,
                            .read =
                                [this](std::span<const int> pids) {
                                  if (broken) throw std::runtime_error("no memory");
                                  return system::read_cpu_times(pids, tree.root());
                                },
                            .pressured = [this] { return pressured; }});
};

TEST_F(NeighbourWatchTest, TenBusySecondsLetTheModelsStepBackAndAMinuteOfCalmEndsThat) {
  pass(Millis(12'000), 60);
  EXPECT_TRUE(told.empty());
  EXPECT_EQ(watch->others_permille(), 600);
  pass(Millis(2'000), 60);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_TRUE(told[0].yielding);
  const auto since = watch->since();
  pass(Millis(60'000), 0);
  EXPECT_TRUE(watch->yielding());
  EXPECT_EQ(watch->since(), since);
  pass(Millis(2'000), 0);
  EXPECT_FALSE(watch->yielding());
  EXPECT_EQ(told.size(), 2u);
}

TEST_F(NeighbourWatchTest, OurOwnWorkersAreNoOthers) {
  pass(Millis(60'000), 10, 90);
  EXPECT_EQ(watch->others_permille(), 100);
  EXPECT_TRUE(told.empty());
}

TEST_F(NeighbourWatchTest, MemoryPressureIsToldWithIt) {
  pass(Millis(14'000), 100);
  pressured = true;
  pass(Millis(2'000), 100);
  ASSERT_EQ(told.size(), 2u);
  EXPECT_EQ(told[1], (Manners{.yielding = true, .pressured = true}));
}

TEST_F(NeighbourWatchTest, WithoutFiguresNothingChanges) {
  pass(Millis(14'000), 100);
  tree.file("proc/stat", "");
  timers->advance(Millis(120'000), [this] {
    settle();
    tree.file("proc/stat", "");
  });
  EXPECT_TRUE(watch->yielding());
  EXPECT_EQ(watch->others_permille(), std::nullopt);
}

TEST_F(NeighbourWatchTest, ALookThatFailsIsNotTheLast) {
  broken = true;
  pass(Millis(2'000), 100);
  broken = false;
  pass(Millis(16'000), 100);
  EXPECT_TRUE(watch->yielding());
}

TEST_F(NeighbourWatchTest, AStoppedWatchTellsNothing) {
  watch->stop();
  pass(Millis(60'000), 100);
  EXPECT_TRUE(told.empty());
}

}  // namespace
}  // namespace gezel::engine
