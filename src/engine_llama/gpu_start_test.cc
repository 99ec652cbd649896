// Where an engine that computes on a GPU asks before it starts.
#include "engine_llama/test_worker.h"

namespace gezel::engine_llama {
namespace {

class GpuStart : public EngineTest {
 protected:
  GpuStart() {
    options.backend = engine::Backend::cuda;
    gpu = std::make_shared<engine::GpuGate>(engine::GpuGate::Parts{
        .loop = io.get_executor(),
        .pool = io.get_executor(),
        .clock = clock,
        .timers = timers,
        .panics = {},
        .safety = std::make_shared<engine::DeviceSafety>(engine::DeviceSafety::Parts{
            .loop = io.get_executor(),
            .pool = io.get_executor(),
            .clock = clock,
            .timers = timers,
            .sample =
                [this] { return engine::GpuSample{system::GpuHealth{.id = "0", .temperature_c = celsius}}; },
            .settings = {.mode = engine::SafetyMode::guard}})});
  }
  double celsius = 50;
};

TEST_F(GpuStart, AHotGpuIsWaitedForBeforeTheSpawn) {
  celsius = 90;
  make();
  auto answer = ask_ready();
  EXPECT_EQ(launches(), 0U);
  celsius = 60;
  advance(Millis(20'000));
  ASSERT_EQ(launches(), 1U);
  become_ready();
  EXPECT_TRUE(*answer && **answer);
}

TEST_F(GpuStart, AStartSaysThatItWaitsForTheGpu) {
  celsius = 90;
  make();
  ask_ready();
  EXPECT_EQ(engine->status().waiting, "waiting for the GPU");
  celsius = 60;
  advance(Millis(20'000));
  EXPECT_EQ(engine->status().waiting, "");
}

TEST_F(GpuStart, ARequestWaitsForTheGpuAsLongAsItMay) {
  celsius = 90;
  make();
  terms.wait_limit = Millis(10'000);
  auto client = ask();
  advance(Millis(12'000));
  read(client);
  EXPECT_EQ(client.failure(), "engine-busy");
}

TEST_F(GpuStart, AnImageWaitsForAProcessThatIsKilledAndNotYetGone) {
  make();
  ask_ready();
  become_ready();
  auto died = launcher->workers.back();
  died->dies_on_kill = false;
  died->hang_up();
  settle();
  advance(kExitWait);
  EXPECT_EQ(engine->status().state, engine::State::stopped);
  std::unique_ptr<engine::Arbiter::Hold> image;
  asio::co_spawn(
      io, gpu->arbiter().acquire_lease(engine::GpuSlot::image, [] { return true; }),
      [&](const std::exception_ptr&, engine::EngineResult<std::unique_ptr<engine::Arbiter::Hold>> r) {
        if (r) image = std::move(*r);
      });
  settle();
  EXPECT_FALSE(image);
  died->tell({0, SIGKILL});
  settle();
  EXPECT_TRUE(image);
}

TEST_F(GpuStart, TheProcessorIsNotAskedForTheGpusSake) {
  options.backend = engine::Backend::cpu;
  celsius = 90;
  make();
  ask_ready();
  EXPECT_EQ(launches(), 1U);
}

TEST_F(GpuStart, AnImageThatIsMadeMeanwhileIsWaitedForAndThenEvictsTheModel) {
  std::unique_ptr<engine::Arbiter::Hold> image;
  const auto lease = [&] {
    asio::co_spawn(
        io, gpu->arbiter().acquire_lease(engine::GpuSlot::image, [] { return true; }),
        [&](const std::exception_ptr&, engine::EngineResult<std::unique_ptr<engine::Arbiter::Hold>> r) {
          if (r) image = std::move(*r);
        });
    settle();
  };
  lease();
  ASSERT_TRUE(image);
  make();
  ask_ready();
  EXPECT_EQ(launches(), 0U);
  image.reset();
  settle();
  ASSERT_EQ(launches(), 1U);
  become_ready();
  lease();
  EXPECT_FALSE(image) << "the model's process still lives";
  EXPECT_EQ(engine->status().state, engine::State::stopping);
  worker().exit({0, 0});
  settle();
  EXPECT_TRUE(image);
}

TEST_F(GpuStart, AStartThatNobodyWantsAnyMoreLeavesTheQueue) {
  celsius = 90;
  make();
  {
    auto client = ask();
    EXPECT_EQ(engine->status().state, engine::State::starting);
    client.generation.reset();
  }
  settle();
  EXPECT_EQ(engine->status().state, engine::State::stopped);
  celsius = 50;
  advance(Millis(30'000));
  EXPECT_EQ(launches(), 0U);
}

}  // namespace
}  // namespace gezel::engine_llama
