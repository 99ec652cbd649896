#include <gtest/gtest.h>

#include "engine/idle_policy.h"
#include "engine/restart_budget.h"
#include "engine/start_deadline.h"
#include "engine/timers.h"
#include "engine/watchdog.h"

namespace gezel::engine {
namespace {

using std::chrono::seconds;

constexpr MonotonicTime at(std::int64_t ms) {
  return MonotonicTime(std::chrono::hours(1)) + Millis(ms);
}
WallTime wall(std::int64_t ms) {
  return WallTime(seconds(1'700'000'000)) + Millis(ms);
}

TEST(RestartBudget, Case2_RestsForAMinuteFromTheFirstRefusal) {
  RestartBudget budget;
  for (const int crash : {0, 20'000, 45'000}) {
    EXPECT_FALSE(budget.refuse(at(crash)));
    budget.record_failure(at(crash));
  }
  EXPECT_EQ(budget.refuse(at(50'000)), Millis(60'000));
  EXPECT_TRUE(budget.exhausted(at(50'000)));
  EXPECT_EQ(budget.refuse(at(109'000)), Millis(1'000));
  EXPECT_FALSE(budget.refuse(at(110'000)));
  EXPECT_FALSE(budget.exhausted(at(110'000)));
}

TEST(RestartBudget, ForgetsFailuresOlderThanTheWindow) {
  RestartBudget budget;
  for (const int crash : {0, 20'000, 45'000}) budget.record_failure(at(crash));
  EXPECT_FALSE(budget.refuse(at(60'000)));
  budget.record_failure(at(61'000));
  EXPECT_TRUE(budget.refuse(at(61'500)));
}

TEST(IdlePolicy, Case13_FreezesAtHalfAndStopsAtTheWholeBudget) {
  IdlePolicy idle(Millis(300'000));
  idle.mark_used(at(0), wall(0));
  EXPECT_EQ(idle.next_deadline(), at(150'050));
  EXPECT_EQ(idle.on_deadline(at(150'050), wall(150'050), false), IdlePolicy::Action::freeze);
  EXPECT_EQ(idle.next_deadline(), at(300'050));
  EXPECT_EQ(idle.on_deadline(at(300'050), wall(300'050), false), IdlePolicy::Action::stop);
  EXPECT_FALSE(idle.next_deadline());
}

TEST(IdlePolicy, Case14_ABusyEngineIsAskedAgainAfterAWholeWindow) {
  IdlePolicy idle(Millis(60'000));
  idle.mark_used(at(0), wall(0));
  EXPECT_EQ(idle.on_deadline(at(30'050), wall(30'050), false), IdlePolicy::Action::freeze);
  EXPECT_EQ(idle.on_deadline(at(60'050), wall(60'050), true), IdlePolicy::Action::none);
  EXPECT_EQ(idle.next_deadline(), at(120'050));
  // Only a new use brings a second freeze.
  EXPECT_EQ(idle.on_deadline(at(100'000), wall(100'000), false), IdlePolicy::Action::stop);
}

TEST(IdlePolicy, AShorterBudgetCountsFromTheLastUse) {
  IdlePolicy idle(Millis(0));
  idle.mark_used(at(0), wall(0));
  EXPECT_FALSE(idle.next_deadline());
  idle.set_budget(Millis(60'000));
  EXPECT_EQ(idle.on_deadline(at(60'049), wall(60'049), false), IdlePolicy::Action::freeze);
  EXPECT_EQ(idle.next_deadline(), at(60'050));
  EXPECT_EQ(idle.on_deadline(at(60'050), wall(60'050), false), IdlePolicy::Action::stop);
}

TEST(IdlePolicy, ASecondFreezeNeedsANewUse) {
  IdlePolicy idle(Millis(60'000));
  idle.mark_used(at(0), wall(0));
  EXPECT_EQ(idle.on_deadline(at(30'050), wall(30'050), false), IdlePolicy::Action::freeze);
  EXPECT_EQ(idle.on_deadline(at(40'000), wall(40'000), false), IdlePolicy::Action::none);
  idle.mark_used(at(41'000), wall(41'000));
  EXPECT_EQ(idle.on_deadline(at(71'050), wall(71'050), false), IdlePolicy::Action::freeze);
}

TEST(IdlePolicy, CountsTheSleepOfTheMachineButNotAClockSetBack) {
  IdlePolicy idle(Millis(300'000));
  idle.mark_used(at(0), wall(0));
  EXPECT_EQ(idle.on_deadline(at(1'000), wall(-3'600'000), false), IdlePolicy::Action::none);
  EXPECT_EQ(idle.on_deadline(at(2'000), wall(3'600'000), false), IdlePolicy::Action::stop);
}

TEST(IdlePolicy, ZeroNeverStops) {
  IdlePolicy idle(Millis(0));
  idle.mark_used(at(0), wall(0));
  EXPECT_FALSE(idle.next_deadline());
  EXPECT_EQ(idle.on_deadline(at(1'000'000'000), wall(1'000'000'000), false), IdlePolicy::Action::none);
}

TEST(StartDeadline, Case3_4_5_And6_IsExtendedByNewObservationsOnly) {
  const Millis base(180'000);
  StartDeadline silent(at(0), base);
  EXPECT_EQ(silent.deadline(), at(180'000));

  StartDeadline late(at(0), base);
  late.observe("loading_model", 0.5, at(175'000));
  late.observe("loading_model", 0.5, at(179'000));  // a repeat
  EXPECT_EQ(late.deadline(), at(235'000));

  StartDeadline early(at(0), base);
  early.observe("loading_model", 0.5, at(100'000));
  EXPECT_EQ(early.deadline(), at(180'000));

  StartDeadline endless(at(0), base);
  for (int i = 1; i < 40; ++i) endless.observe("loading_model", i, at(30'000 * i));
  EXPECT_EQ(endless.deadline(), at(540'000));
}

TEST(TurnWatchdog, GivesTheFirstTextLongerThanTheRest) {
  TurnWatchdog dog;
  dog.start(at(0), 1);
  EXPECT_EQ(dog.deadline(), at(600'000));
  EXPECT_EQ(dog.check(at(599'999), 1), TurnWatchdog::Verdict::fine);
  EXPECT_EQ(dog.check(at(600'000), 1), TurnWatchdog::Verdict::before_text);
  dog.text();
  dog.alive(at(600'000), 2);
  EXPECT_EQ(dog.check(at(900'000), 2), TurnWatchdog::Verdict::between_text);
}

TEST(TurnWatchdog, IsPatientWithAnEngineThatStillDecodes) {
  TurnWatchdog dog;
  dog.start(at(0), 1);
  EXPECT_EQ(dog.check(at(600'000), 2), TurnWatchdog::Verdict::fine);
  EXPECT_EQ(dog.deadline(), at(1'200'000));
  EXPECT_EQ(dog.check(at(1'200'000), 2), TurnWatchdog::Verdict::before_text);
}

TEST(TurnWatchdog, DoesNotCountAPauseOfOurOwn) {
  TurnWatchdog dog;
  dog.start(at(0), 1);
  dog.text();
  dog.pause();
  EXPECT_EQ(dog.check(at(3'600'000), 1), TurnWatchdog::Verdict::fine);
  dog.resume(at(3'600'000));
  EXPECT_EQ(dog.check(at(3'899'999), 1), TurnWatchdog::Verdict::fine);
  EXPECT_EQ(dog.check(at(3'900'000), 1), TurnWatchdog::Verdict::between_text);
}

TEST(TurnWatchdog, BoundsTheWholeTurn) {
  TurnWatchdog dog;
  dog.start(at(0), 1);
  dog.alive(at(28'799'999), 5);
  EXPECT_EQ(dog.check(at(28'800'000), 6), TurnWatchdog::Verdict::turn);
}

TEST(ManualTimers, FireInOrderOfTheirDeadlines) {
  ManualClock clock;
  ManualTimers timers(clock);
  std::string order;
  auto a = timers.make();
  auto b = timers.make();
  auto c = timers.make();
  a->arm(clock.now() + Millis(20), [&] { order += 'a'; });
  b->arm(clock.now() + Millis(10), [&] {
    order += 'b';
    b->arm(clock.now() + Millis(5), [&] { order += 'B'; });
  });
  c->arm(clock.now() + Millis(12), [&] { order += 'c'; });
  c->cancel();
  timers.advance(Millis(19));
  EXPECT_EQ(order, "bB");
  timers.advance(Millis(1));
  EXPECT_EQ(order, "bBa");
}

}  // namespace
}  // namespace gezel::engine
