#include "engine/pressure_watch.h"

#include "engine/test_admission.h"

namespace gezel::engine {
namespace {

TEST_F(AdmissionTest, UnderMemoryPressureIdleEnginesGo) {
  Paper a{"a", kGiB}, b{"b", kGiB, true};
  load(a);
  load(b);
  admission->unload_idle();
  EXPECT_EQ(a.unloads, 1);
  EXPECT_EQ(b.unloads, 0);
}

TEST_F(AdmissionTest, TheWatchTakesOneStepAfterTheOtherAndUndoesThem) {
  Paper a{"a", kGiB}, b{"b", kGiB};
  load(a);
  capacity::PressureSample sample{.some_avg10 = 1'500};
  const auto watch = std::make_shared<PressureWatch>(PressureWatch::Parts{.loop = io.get_executor(),
                                                                          .pool = io.get_executor(),
                                                                          .clock = clock,
                                                                          .timers = timers,
                                                                          .sample = [&] { return sample; },
                                                                          .admission = admission});
  watch->start();
  pass(kPressureLook);
  EXPECT_EQ(watch->state().step, capacity::PressureStep::drop_host_caches);
  EXPECT_EQ(a.unloads, 0);
  pass(Millis(capacity::kPressureStepMs) + kPressureLook);
  EXPECT_EQ(a.unloads, 1);
  a.seat.reset();
  pass(Millis(capacity::kPressureStepMs) + kPressureLook);
  ask(b);
  EXPECT_FALSE(b.seat) << "nothing is loaded now";
  sample.some_avg10 = 0;
  pass(Millis(capacity::kPressureClearMs) + 2 * kPressureLook);
  EXPECT_TRUE(b.seat);
  watch->stop();
}

TEST_F(AdmissionTest, ALookThatFailsIsNotTheWatchsLast) {
  capacity::PressureSample sample{.some_avg10 = 1'500};
  bool broken = false;
  const auto watch =
      std::make_shared<PressureWatch>(PressureWatch::Parts{.loop = io.get_executor(),
                                                           .pool = io.get_executor(),
                                                           .clock = clock,
                                                           .timers = timers,
                                                           .sample =
                                                               [&] {
                                                                 if (broken)
                                                                   throw std::runtime_error("no memory");
                                                                 return sample;
                                                               },
                                                           .admission = admission});
  watch->start();
  pass(2 * Millis(capacity::kPressureStepMs) + 2 * kPressureLook);
  ASSERT_TRUE(admission->holds());
  broken = true;
  pass(kPressureLook);
  broken = false;
  sample.some_avg10 = 0;
  pass(Millis(capacity::kPressureClearMs) + 2 * kPressureLook);
  EXPECT_FALSE(admission->holds()) << "what is loaded next would wait for ever";
  watch->stop();
}

}  // namespace
}  // namespace gezel::engine
