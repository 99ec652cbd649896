// One model in two workers: two real engines behind engine/replicas.h, with workers from inside the test.
#include "engine/replicas.h"

#include <gmock/gmock.h>

#include "engine_llama/test_worker.h"

namespace gezel::engine_llama {
namespace {

using engine::State;

// A model of 1 GiB with 128 KiB per token and one slot of 16,384 tokens: 3 to 4 GiB a worker.
class TwoWorkers : public EngineTest {
 protected:
  TwoWorkers() {
    admission = std::make_shared<engine::Admission>(engine::Admission::Parts{
        .loop = io.get_executor(), .clock = clock, .timers = timers, .machine = [this] {
          engine::Admission::Machine machine;
          machine.pools.budget_bytes = machine.pools.ram_share_bytes = machine.pools.fast_bytes = budget;
          machine.total_ram = 32 * kGiB;
          machine.free_ram = 32 * kGiB;
          return machine;
        }});
    capacity::LaunchInput input;
    input.model.id = "m";
    input.model.architecture = "llama";
    input.model.weights = kGiB;
    input.model.geometry = capacity::KvGeometry{.global_elements = 65'536, .attention_layers = 32};
    input.model.native = 16'384;
    input.settings.kv_type = capacity::KvType::f16;
    input.settings.slots = 1;
    capacity = input;
  }
  ~TwoWorkers() override {
    engine.reset();
    settle();
  }
  void make_both() {
    engine = engine::make_replicas(
        {.loop = io.get_executor(), .clock = clock, .count = 2, .make = [this](int replica) {
           options.replica = replica;
           options.replicas = 2;
           make();
           return std::move(engine);
         }});
  }
  // What the worker of a start is told; it becomes ready. A dry run comes before and fails: estimates will
  // do.
  protocol::Load load() {
    settle();
    worker().exit({1, 0});
    settle();
    worker().hello();
    settle();
    const auto frames = worker().take();
    if (frames.empty() || frames.back().type != protocol::FrameType::load) {
      ADD_FAILURE() << "no load";
      return {};
    }
    auto out = *protocol::parse_load(frames.back().body);
    worker().ready(1, out.context_per_slot);
    settle();
    return out;
  }
  Client ask_as(std::string who) {
    session = std::move(who);
    return ask();
  }
  FakeWorker& first() { return *launcher->workers[1]; }
  FakeWorker& second() { return *launcher->workers[3]; }
  std::vector<std::string> reserved() const {
    std::vector<std::string> out;
    for (const auto& held : admission->reservations()) out.push_back(held.key);
    return out;
  }

  Bytes budget = 24 * kGiB;
};

TEST_F(TwoWorkers, HaveMemoryCachesAndFilesOfTheirOwnAndShareTheProcessors) {
  make_both();
  const auto a = ask_as("a");
  const auto of_first = load();
  EXPECT_EQ(of_first.threads, 1) << "half of the two";
  EXPECT_THAT(reserved(), testing::ElementsAre("llama-cpp:m:0"));
  const auto b = ask_as("b");
  const auto of_second = load();
  EXPECT_EQ(of_second.threads, 1);
  EXPECT_EQ(of_second.context_per_slot, of_first.context_per_slot);
  EXPECT_NE(of_second.cache_folder, of_first.cache_folder);
  EXPECT_THAT(reserved(), testing::ElementsAre("llama-cpp:m:0", "llama-cpp:m:1"));
  std::size_t pid_files = 0;
  for (const auto& file : fs::directory_iterator(home.path() / "runtime")) pid_files += file.exists();
  EXPECT_EQ(pid_files, 2u);

  const auto status = engine->status();
  EXPECT_EQ(status.slots, 2);
  ASSERT_EQ(status.replicas.size(), 2u);
  EXPECT_EQ(status.replicas[0].sessions, 2);
}

TEST_F(TwoWorkers, ServeTheirOwnConversations) {
  make_both();
  const auto a = ask_as("a");
  load();
  EXPECT_EQ(first().take_requests().size(), 1u);
  const auto b = ask_as("b");
  EXPECT_EQ(first().take_requests().size(), 1u) << "it does not wait for the second worker";
  load();
  const auto c = ask_as("c");
  EXPECT_EQ(second().take_requests().size(), 1u);
  const auto again = ask_as("a");
  EXPECT_EQ(first().take_requests().size(), 1u);
  EXPECT_TRUE(second().take_requests().empty());
}

TEST_F(TwoWorkers, TheSecondIsNotLoadedWithoutRoomAndTheFirstGoesOn) {
  make_both();
  const auto a = ask_as("a");
  load();
  budget = 3 * kGiB;  // it would get a shorter window than the first has
  const auto launched = launches();
  const auto b = ask_as("b");
  settle();
  if (launches() > launched) {  // it was measured
    worker().exit({1, 0});
    settle();
  }
  EXPECT_LE(launches(), launched + 1) << "a worker was loaded";
  EXPECT_THAT(reserved(), testing::ElementsAre("llama-cpp:m:0"));
  EXPECT_EQ(first().take_requests().size(), 2u);
  EXPECT_EQ(engine->status().replicas.size(), 1u);
}

TEST_F(TwoWorkers, OneThatDiesTakesNothingOfTheOtherAlong) {
  make_both();
  const auto a = ask_as("a");
  load();
  const auto b = ask_as("b");
  load();
  const auto c = ask_as("c");
  first().take_requests();
  second().take_requests();
  second().exit({0, SIGKILL});
  settle();
  EXPECT_FALSE(first().ended);
  ASSERT_EQ(engine->status().replicas.size(), 1u);
  EXPECT_EQ(engine->status().state, State::ready);
  EXPECT_THAT(reserved(), testing::ElementsAre("llama-cpp:m:0"));
  const auto again = ask_as("c");
  EXPECT_EQ(first().take_requests().size(), 1u) << "its conversations go on with the other";
}

TEST_F(TwoWorkers, StoppingEndsBoth) {
  make_both();
  const auto a = ask_as("a");
  load();
  const auto b = ask_as("b");
  load();
  std::optional<engine::StopOutcome> outcome;
  asio::co_spawn(io, engine->stop(),
                 [&](const std::exception_ptr&, engine::StopOutcome told) { outcome = told; });
  settle();
  first().exit({0, 0});
  settle();
  EXPECT_FALSE(outcome) << "the second still runs";
  second().exit({0, 0});
  settle();
  ASSERT_TRUE(outcome);
  EXPECT_TRUE(outcome->was_running);
  EXPECT_TRUE(reserved().empty());
}

}  // namespace
}  // namespace gezel::engine_llama
