#include "engine/gpu_gate.h"

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>

#include "base/test_folder.h"

namespace gezel::engine {
namespace {

class GpuGateTest : public testing::Test {
 protected:
  std::optional<EngineResult<>> enter() {
    SystemClock clock;
    const auto timers = std::make_shared<LoopTimers>(io.get_executor());
    GpuGate gate({.loop = io.get_executor(),
                  .pool = io.get_executor(),
                  .clock = clock,
                  .timers = timers,
                  .panics = {.folders = {reports.path()}},
                  .safety = std::make_shared<DeviceSafety>(DeviceSafety::Parts{.loop = io.get_executor(),
                                                                               .pool = io.get_executor(),
                                                                               .clock = clock,
                                                                               .timers = timers,
                                                                               .sample =
                                                                                   [this] {
                                                                                     ++samples;
                                                                                     return GpuSample{};
                                                                                   },
                                                                               .settings = {}})});
    std::optional<EngineResult<>> out;
    asio::co_spawn(io, gate.enter(GpuSlot::llm, [] { return true; }),
                   [&](const std::exception_ptr&, EngineResult<> result) { out = std::move(result); });
    io.run();
    return out;
  }

  TestFolder reports;
  asio::io_context io;
  int samples = 0;
};

TEST_F(GpuGateTest, APanicIsAskedForBeforeTheDeviceIs) {
  reports.write("now.panic", "IOGPUFamily");
  const auto answer = enter();
  ASSERT_TRUE(answer && !*answer);
  EXPECT_EQ((*answer).error().error.code, "gpu-panic-cooldown");
  EXPECT_NE((*answer).error().error.message.find("now.panic"), std::string::npos);
  EXPECT_EQ(samples, 0);
}

TEST_F(GpuGateTest, WithoutOneTheDeviceIsAsked) {
  const auto answer = enter();
  ASSERT_TRUE(answer);
  EXPECT_TRUE(*answer);
  EXPECT_EQ(samples, 1);
}

}  // namespace
}  // namespace gezel::engine
