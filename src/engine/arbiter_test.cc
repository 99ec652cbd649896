// Engines that exist only on paper take turns on a GPU.
#include "engine/arbiter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <stdexcept>

namespace gezel::engine {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Hold = Arbiter::Hold;

class ArbiterTest : public testing::Test {
 protected:
  void make(GpuPolicy policy) {
    arbiter = std::make_shared<Arbiter>(
        Arbiter::Parts{.loop = io.get_executor(),
                       .clock = clock,
                       .timers = timers,
                       .policy = policy,
                       .admit = [this](Arbiter::Wanted) -> asio::awaitable<EngineResult<>> {
                         log.push_back("admit");
                         if (unsafe) co_return std::unexpected(make_error("device-unsafe", "hot"));
                         co_return EngineResult<>();
                       }});
  }
  void settle() {
    do io.restart();
    while (io.poll() > 0);
  }
  void pass(Millis time) {
    timers->advance(time, [this] { settle(); });
    settle();
  }
  std::unique_ptr<Hold> add(GpuSlot slot, const std::string& name) {
    return arbiter->add(slot, name, [this, name]() -> asio::awaitable<void> {
      log.push_back("evict " + name);
      co_return;
    });
  }
  using Answer = std::shared_ptr<std::optional<EngineResult<>>>;
  Answer acquire(GpuSlot slot, std::function<bool()> wanted = [] { return true; }) {
    auto out = std::make_shared<std::optional<EngineResult<>>>();
    asio::co_spawn(io, arbiter->acquire(slot, std::move(wanted)),
                   [this, out, slot](const std::exception_ptr&, EngineResult<> result) {
                     log.push_back(std::string(gpu_slot_name(slot)));
                     *out = std::move(result);
                   });
    settle();
    return out;
  }
  std::unique_ptr<Hold> lease(GpuSlot slot) {
    std::unique_ptr<Hold> out;
    asio::co_spawn(io, arbiter->acquire_lease(slot, [] { return true; }),
                   [&](const std::exception_ptr&, EngineResult<std::unique_ptr<Hold>> result) {
                     if (result) out = std::move(*result);
                   });
    settle();
    return out;
  }

  asio::io_context io;
  ManualClock clock;
  std::shared_ptr<ManualTimers> timers = std::make_shared<ManualTimers>(clock);
  std::shared_ptr<Arbiter> arbiter;
  std::vector<std::string> log;
  bool unsafe = false;
};

// Acceptance case 60, up to where the text plan is made: the caller's next step.
TEST_F(ArbiterTest, TextWaitsForAnImageLeaseAndThenForTheEndOfItsEngines) {
  make(GpuPolicy::swap);
  auto image = lease(GpuSlot::image);
  ASSERT_TRUE(image);
  asio::steady_timer exit(io, asio::steady_timer::time_point::max());
  auto engine = arbiter->add(GpuSlot::image, "sd", [&]() -> asio::awaitable<void> {
    log.push_back("evict sd");
    boost::system::error_code woken;
    co_await exit.async_wait(asio::redirect_error(asio::use_awaitable, woken));
    log.push_back("sd ended");
  });
  log.clear();
  auto text = acquire(GpuSlot::llm);
  EXPECT_FALSE(*text);
  EXPECT_THAT(log, IsEmpty());
  image.reset();
  settle();
  EXPECT_FALSE(*text) << "the engine's process still lives";
  exit.cancel();
  settle();
  EXPECT_TRUE(*text && **text);
  EXPECT_THAT(log, ElementsAre("evict sd", "sd ended", "admit", "llm"));
}

TEST_F(ArbiterTest, CoexistingEnginesAreLeftAlone) {
  make(GpuPolicy::coexist);
  auto engine = add(GpuSlot::image, "sd");
  auto image = lease(GpuSlot::image);
  EXPECT_TRUE(**acquire(GpuSlot::llm));
  EXPECT_THAT(log, testing::Not(testing::Contains("evict sd")));
}

TEST_F(ArbiterTest, OnlyOtherSlotsAreEvictedAndOneThatFailsIsPassedOver) {
  make(GpuPolicy::swap);
  auto own = add(GpuSlot::llm, "gemma");
  auto bad = arbiter->add(GpuSlot::image, "bad", []() -> asio::awaitable<void> {
    throw std::runtime_error("stuck");
    co_return;
  });
  auto video = add(GpuSlot::video, "wan");
  EXPECT_TRUE(**acquire(GpuSlot::llm));
  EXPECT_THAT(log, ElementsAre("evict wan", "admit", "llm"));
  log.clear();
  video.reset();
  acquire(GpuSlot::llm);
  EXPECT_THAT(log, ElementsAre("admit", "llm")) << "what left is not evicted";
}

TEST_F(ArbiterTest, WaitersAreServedInTheirOrderAndMayLeave) {
  make(GpuPolicy::swap);
  auto image = lease(GpuSlot::image);
  bool wanted = true;
  log.clear();
  auto first = acquire(GpuSlot::llm);
  auto gone = acquire(GpuSlot::llm, [&] { return wanted; });
  auto last = acquire(GpuSlot::video);
  wanted = false;
  arbiter->changed();
  settle();
  ASSERT_TRUE(*gone);
  EXPECT_EQ((*gone)->error().error.code, "cancelled");
  log.clear();
  image.reset();
  settle();
  EXPECT_THAT(log, ElementsAre("admit", "llm", "admit", "video"));
  EXPECT_EQ(arbiter->waiting(), 0u);
}

TEST_F(ArbiterTest, ALeaseIsGivenBackWhereTheDeviceIsUnsafe) {
  make(GpuPolicy::swap);
  unsafe = true;
  EXPECT_FALSE(lease(GpuSlot::image));
  unsafe = false;
  EXPECT_TRUE(**acquire(GpuSlot::llm));
}

TEST_F(ArbiterTest, ALeaseOfNinetyMinutesIsBroken) {
  make(GpuPolicy::swap);
  auto image = lease(GpuSlot::image);
  auto text = acquire(GpuSlot::llm);
  pass(kLongestLease);
  EXPECT_FALSE(*text);
  pass(kLeaseLook);
  EXPECT_TRUE(*text && **text);
}

TEST_F(ArbiterTest, CoexistenceWakesThoseWhoWait) {
  make(GpuPolicy::swap);
  auto image = lease(GpuSlot::image);
  auto text = acquire(GpuSlot::llm);
  arbiter->set_policy(GpuPolicy::coexist);
  settle();
  EXPECT_TRUE(*text && **text);
}

TEST(GpuPolicies, AutomaticDependsOnSharedMemory) {
  EXPECT_EQ(resolve_gpu_policy(GpuPolicy::automatic, true, 24 * kGiB), GpuPolicy::coexist);
  EXPECT_EQ(resolve_gpu_policy(GpuPolicy::automatic, true, 24 * kGiB - 1), GpuPolicy::swap);
  EXPECT_EQ(resolve_gpu_policy(GpuPolicy::automatic, false, 512 * kGiB), GpuPolicy::swap);
  EXPECT_EQ(resolve_gpu_policy(GpuPolicy::coexist, false, 0), GpuPolicy::coexist);
  EXPECT_EQ(parse_gpu_policy("auto"), GpuPolicy::automatic);
  EXPECT_FALSE(parse_gpu_policy("both"));
}

}  // namespace
}  // namespace gezel::engine
