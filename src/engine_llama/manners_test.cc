// Good-neighbour mode, as one engine does it.
#include "engine_llama/test_worker.h"

namespace gezel::engine_llama {
namespace {

class MannersTest : public EngineTest {
 protected:
  // Numbers of threads that the worker was told since the last call.
  std::vector<int> told_threads() {
    std::vector<int> out;
    for (const auto& frame : worker().take()) {
      if (frame.type != protocol::FrameType::control) continue;
      const auto control = protocol::parse_control(frame.body);
      if (control && control->action == "set_threads") out.push_back(control->threads.value_or(0));
    }
    return out;
  }
};

constexpr engine::Manners kYield{.yielding = true};

TEST_F(MannersTest, SteppingBackIsHalfTheThreadsAtLowPriority) {
  make_ready();
  EXPECT_EQ(engine->status().threads, 2);
  engine->set_manners(kYield);
  settle();
  EXPECT_EQ(told_threads(), std::vector<int>{1});
  EXPECT_EQ(worker().nice, 10);
  EXPECT_EQ(engine->status().threads, 1);
  EXPECT_EQ(engine->status().nice, 10);
  engine->set_manners({});
  settle();
  EXPECT_EQ(told_threads(), std::vector<int>{2});
  EXPECT_EQ(worker().nice, 0);
}

TEST_F(MannersTest, ALoadStepsBackFromItsSpawnOn) {
  make();
  engine->set_manners(kYield);
  ask_ready();
  EXPECT_EQ(worker().nice, 10);
  worker().take();
  become_ready();
  EXPECT_EQ(engine->status().threads, 1);
}

TEST_F(MannersTest, ThreadsComeBackWherePriorityMayNotAndTheNextLoadHasBoth) {
  make_ready();
  worker().keeps_nice = true;
  engine->set_manners(kYield);
  engine->set_manners({});
  settle();
  EXPECT_EQ(told_threads(), (std::vector<int>{1, 2}));
  EXPECT_EQ(engine->status().nice, 10);
  stop();
  ask_ready();
  become_ready();
  EXPECT_EQ(worker().nice, 0);
  EXPECT_EQ(engine->status().nice, 0);
}

TEST_F(MannersTest, UnderMemoryPressureAMinuteOfIdlenessIsEnough) {
  make_ready();
  engine->set_manners({.yielding = true, .pressured = true});
  advance_alive(Millis(59'000));
  EXPECT_EQ(engine->status().state, engine::State::ready);
  advance_alive(Millis(2'000));
  EXPECT_EQ(engine->status().state, engine::State::stopping);
}

TEST_F(MannersTest, WithoutPressureTheUsualIdleTimeHolds) {
  make_ready();
  engine->set_manners(kYield);
  advance_alive(Millis(120'000));
  EXPECT_EQ(engine->status().state, engine::State::ready);
}

}  // namespace
}  // namespace gezel::engine_llama
