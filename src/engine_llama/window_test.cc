// Requests that need a longer window than is loaded, windows that memory kept short, files that change: when
// a model is loaded again for them, and when not.
#include <gmock/gmock.h>

#include "engine_llama/test_worker.h"

namespace gezel::engine_llama {
namespace {

using engine::State;
using testing::HasSubstr;

constexpr std::int64_t kNative = 32'768, kFloor = 16'384;

// A model of 1 GiB with 128 KiB per token on a machine of 32 GiB, one slot.
class Windows : public EngineTest {
 protected:
  Windows() {
    admission = std::make_shared<engine::Admission>(engine::Admission::Parts{
        .loop = io.get_executor(), .clock = clock, .timers = timers, .machine = [this] {
          engine::Admission::Machine machine;
          machine.pools.budget_bytes = machine.pools.ram_share_bytes = machine.pools.fast_bytes = 24 * kGiB;
          machine.total_ram = 32 * kGiB;
          machine.free_ram = free;
          return machine;
        }});
    capacity::LaunchInput input;
    input.model.id = "m";
    input.model.architecture = "llama";
    input.model.weights = kGiB;
    input.model.geometry = capacity::KvGeometry{.global_elements = 65'536, .attention_layers = 32};
    input.model.native = kNative;
    input.settings.kv_type = capacity::KvType::f16;
    input.settings.slots = 1;
    input.settings.floor = kFloor;
    capacity = input;
  }
  ~Windows() override {
    engine.reset();
    settle();
  }

  static constexpr Bytes kShort = 5 * kGiB, kPlenty = 24 * kGiB;

  // The worker of a start says hello and takes what it is told to. Returns the window; `grants` overrides it.
  std::int64_t load(std::int64_t grants = 0) {
    settle();
    worker().hello();
    settle();
    const auto frames = worker().take();
    if (frames.empty() || frames.back().type != protocol::FrameType::load) {
      ADD_FAILURE() << "no load";
      return 0;
    }
    const auto load = protocol::parse_load(frames.back().body);
    path = load->model_path;
    const auto window = grants > 0 ? grants : load->context_per_slot;
    worker().ready(1, window);
    settle();
    // Only the real thing is ready; ids of the requests it got at once:
    generates = take();
    return window;
  }
  // A model that was loaded while memory was short. Its window.
  std::int64_t load_short() {
    free = kShort;
    make();
    ready = ask_ready();
    worker().exit({1, 0});  // no dry run: estimates will do
    const auto window = load();
    EXPECT_LT(window, kFloor);
    EXPECT_TRUE(engine->status().below_floor);
    loads = launches();
    return window;
  }
  // The requests that the worker was sent since the last look.
  std::vector<protocol::Generate> take() {
    std::vector<protocol::Generate> out;
    stopped = false;
    for (const auto& frame : worker().take()) {
      if (frame.type == protocol::FrameType::generate) out.push_back(*protocol::parse_generate(frame.body));
      stopped |= frame.type == protocol::FrameType::drain;
    }
    return out;
  }
  Client wish(std::int64_t context) {
    prompt::GenerateRequest request;
    request.context = context;
    request.queue = terms;
    request.messages.push_back({prompt::Role::user, {{prompt::ContentPart::Kind::text, "hello"}}});
    return send(std::move(request));
  }
  // The worker finds the prompt too long.
  void overflow(std::uint64_t id, std::int64_t prompt, std::int64_t needed) {
    protocol::Failed failed;
    failed.id = id;
    failed.kind = "context_overflow";
    failed.code = "context-overflow";
    failed.message = "the prompt is too long";
    failed.prompt_tokens = prompt;
    failed.context_tokens = engine->status().context;
    failed.needed_tokens = needed;
    worker().say(protocol::encode(failed));
    settle();
  }
  // A load of another model that waits until this one is gone.
  struct Other {
    std::unique_ptr<engine::Seat> seat;
    bool wanted = true;
  };
  std::shared_ptr<Other> enter_other() {
    auto other = std::make_shared<Other>();
    engine::Holder holder{.key = "llama-cpp:other:0",
                          .name = "other",
                          .busy = [] { return false; },
                          .lane = [] { return std::optional(prompt::Lane::interactive); },
                          .hits_last_minute = [] { return 0; },
                          .idle_ms = [] { return std::int64_t{0}; },
                          .give_way = [](bool) {},
                          .unload = [] {}};
    asio::co_spawn(
        io,
        [other, holder, admission = admission]() -> asio::awaitable<void> {
          auto admitted = co_await admission->enter({.holder = holder,
                                                     .plan =
                                                         [](const capacity::MachineState& state) {
                                                           capacity::MemoryPlan plan;
                                                           plan.slots = 1;
                                                           plan.bytes.weights = kGiB;
                                                           plan.decision = capacity::Decision::fits;
                                                           for (const auto& resident : state.residents)
                                                             plan.evicts.push_back(resident.key);
                                                           return plan;
                                                         },
                                                     .wanted = [other] { return other->wanted; },
                                                     .notice = [](const engine::Waiting&) {}});
          if (admitted) other->seat = std::move(admitted->seat);
        },
        asio::detached);
    settle();
    return other;
  }
  // The worker was told to stop, and does.
  void stop_worker() {
    take();
    EXPECT_TRUE(stopped || was_stopped());
    worker().exit({0, 0});
    settle();
  }
  bool was_stopped() const { return engine->status().state == State::stopping; }
  bool reloads() { return was_stopped() || launches() > loads; }
  const engine::EngineError& error_of(Client& client) {
    read(client);
    const auto* failed = client.last<engine::Failed>();
    static const engine::EngineError kNone;
    EXPECT_TRUE(failed) << "it was not refused";
    return failed ? failed->error : kNone;
  }

  Bytes free = kPlenty;
  Ready ready;
  std::vector<protocol::Generate> generates;
  std::string path;
  std::size_t loads = 0;
  bool stopped = false;
};

TEST_F(Windows, ARequestThatAsksForMoreThanIsLoadedGetsItFromAnIdleEngine) {
  const auto window = load_short();
  free = kPlenty;
  auto client = wish(window + 1);
  EXPECT_TRUE(was_stopped());
  stop_worker();
  EXPECT_GT(load(), window);
  ASSERT_EQ(generates.size(), 1U);
  worker().done(generates[0].id);
  settle();
  read(client);
  EXPECT_TRUE(client.last<engine::Done>());
}

TEST_F(Windows, ARequestThatAsksForLessIsAnsweredWithWhatIsLoaded) {
  const auto window = load_short();
  free = kPlenty;
  auto client = wish(window);
  EXPECT_FALSE(reloads());
  EXPECT_EQ(take().size(), 1U);
}

TEST_F(Windows, ABusyEngineIsLoadedAgainWhenItsAnswersAreDone) {
  const auto window = load_short();
  free = kPlenty;
  auto running = ask();
  const auto id = take().at(0).id;
  auto client = wish(window + 1);
  auto late = ask();
  EXPECT_FALSE(was_stopped());
  EXPECT_TRUE(take().empty()) << "nothing new goes to a worker that is to be loaded again";
  EXPECT_THAT(engine->status().waiting, HasSubstr("longer window"));
  worker().done(id);
  settle();
  EXPECT_TRUE(was_stopped());
  read(running);
  EXPECT_TRUE(running.last<engine::Done>());
  stop_worker();
  EXPECT_GT(load(), window);
  EXPECT_EQ(generates.size(), 2U);
  EXPECT_EQ(engine->status().waiting, "");
}

TEST_F(Windows, WhatDoesNotFitIsRefusedWithEveryNumberAndNothingIsLoaded) {
  const auto window = load_short();
  auto client = wish(kNative);
  const auto error = error_of(client);
  EXPECT_EQ(error.error.code, "capacity-denied");
  EXPECT_EQ(error.error.param, "num_ctx");
  ASSERT_TRUE(error.window);
  EXPECT_EQ(error.window->needed, kNative);
  EXPECT_EQ(error.window->granted, window);
  EXPECT_EQ(error.window->native, kNative);
  EXPECT_EQ(error.window->limit, kNative);
  EXPECT_EQ(error.window->largest, window);
  EXPECT_EQ(error.window->binding, "live-memory");
  EXPECT_THAT(error.error.message, HasSubstr(std::to_string(window)));
  EXPECT_FALSE(reloads());
}

TEST_F(Windows, MoreThanTheModelsOwnWindowIsRefusedForGood) {
  load_short();
  free = kPlenty;
  auto client = wish(kNative + 1);
  const auto error = error_of(client);
  EXPECT_EQ(error.error.code, "context-overflow");
  EXPECT_EQ(error.retry, engine::Retry::never);
  EXPECT_EQ(error.window->limit, kNative);
  EXPECT_THAT(error.error.message, HasSubstr("32768"));
  EXPECT_FALSE(reloads());
}

TEST_F(Windows, MoreThanTheServiceWasToldIsRefusedBeforeALoad) {
  capacity->settings.context.model_override = 4'096;
  make();
  auto client = wish(8'192);
  EXPECT_EQ(launches(), 0U);
  const auto error = error_of(client);
  EXPECT_EQ(error.error.code, "context-overflow");
  EXPECT_EQ(error.window->limit, 4'096);
  EXPECT_EQ(error.window->native, kNative);
  EXPECT_THAT(error.error.message, HasSubstr("was told"));
}

TEST_F(Windows, AModelThatIsNotLoadedIsLoadedWithWhatIsAskedFor) {
  free = kPlenty;
  capacity->settings.kv_ceiling = kGiB;
  capacity->model.native = 131'072;
  make();
  auto client = wish(100'000);
  worker().exit({1, 0});
  EXPECT_GE(load(), 100'000);
  EXPECT_EQ(generates.size(), 1U);
}

TEST_F(Windows, TheLargerOfTwoNeedsIsLoadedOnce) {
  const auto window = load_short();
  auto running = ask();
  const auto id = take().at(0).id;
  free = kPlenty;
  auto small = wish(window + 1'000);
  auto large = wish(kNative);
  worker().done(id);
  settle();
  stop_worker();
  EXPECT_EQ(load(), kNative);
  EXPECT_EQ(generates.size(), 2U);
  EXPECT_EQ(launches(), loads + 1);
}

TEST_F(Windows, OfTwoNeedsTheOneThatFitsIsLoadedAndTheOtherRefused) {
  free = kShort;
  make();
  auto small = wish(5'000);
  auto large = wish(kNative);
  worker().exit({1, 0});
  EXPECT_GE(load(), 5'000);
  EXPECT_EQ(generates.size(), 1U);
  EXPECT_EQ(error_of(large).error.code, "capacity-denied");
  EXPECT_EQ(launches(), 2U) << "the one measurement and the one load";
}

TEST_F(Windows, AFurtherNeedThatComesWhileALoadWaitsIsMetByThatLoad) {
  free = kShort;
  make();
  admission->hold("memory is short");
  auto small = wish(5'000);
  worker().exit({1, 0});
  settle();
  EXPECT_EQ(launches(), 1U);
  free = kPlenty;
  auto large = wish(kNative);
  admission->hold("");
  settle();
  EXPECT_EQ(load(), kNative);
  EXPECT_EQ(generates.size(), 2U);
  EXPECT_EQ(launches(), 2U);
}

TEST_F(Windows, APromptThatIsTooLongIsSentAgainWhenTheModelHasALongerWindow) {
  const auto window = load_short();
  free = kPlenty;
  auto client = ask();
  const auto sent = take();
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].window_possible, kNative) << "the worker knows how far it could go";
  overflow(sent[0].id, window + 500, window + 756);
  stop_worker();
  EXPECT_GE(load(), window + 756);
  ASSERT_EQ(generates.size(), 1U);
  EXPECT_EQ(generates[0].id, sent[0].id);
  worker().done(sent[0].id);
  settle();
  read(client);
  EXPECT_TRUE(client.last<engine::Done>());
}

TEST_F(Windows, APromptThatIsTooLongForAnyWindowIsRefusedWithWhatIsMissing) {
  const auto window = load_short();
  auto client = ask();
  const auto sent = take();
  EXPECT_EQ(sent[0].window_possible, 0);
  overflow(sent[0].id, window + 500, window + 756);
  const auto error = error_of(client);
  EXPECT_EQ(error.error.code, "context-overflow");
  EXPECT_EQ(error.http_hint, 400);
  EXPECT_EQ(error.prompt_tokens, window + 500);
  EXPECT_EQ(error.context_tokens, window);
  EXPECT_EQ(error.window->needed, window + 756);
  EXPECT_THAT(error.error.message, HasSubstr("the prompt is too long"));
  EXPECT_THAT(error.error.message, HasSubstr("fit now"));
  EXPECT_FALSE(reloads());
}

TEST_F(Windows, ALongAnswerSettlesForWhatIsLoadedWhenTheLongerWindowIsGone) {
  load_short();
  free = kPlenty;
  auto client = ask();
  const auto sent = take();
  free = kShort;  // somebody else took it
  overflow(sent[0].id, 10, kNative);
  EXPECT_FALSE(reloads());
  const auto again = take();
  ASSERT_EQ(again.size(), 1U);
  EXPECT_EQ(again[0].id, sent[0].id);
  EXPECT_EQ(again[0].window_possible, 0);
}

TEST_F(Windows, ALongAnswerSettlesForWhatALoadGotWhenThatIsLessThanWasPlanned) {
  const auto window = load_short();
  free = kPlenty;
  auto client = ask();
  const auto sent = take();
  overflow(sent.at(0).id, 10, kNative);
  stop_worker();
  load(window);
  ASSERT_EQ(generates.size(), 1U);
  EXPECT_EQ(generates[0].window_possible, 0);
}

TEST_F(Windows, ANeedThatALoadDidNotMeetIsNotTriedAgainAtOnce) {
  const auto window = load_short();
  free = kPlenty;
  auto client = wish(kNative);
  stop_worker();
  load(window);  // the worker got less than was planned
  EXPECT_EQ(error_of(client).error.code, "capacity-denied");
  loads = launches();
  auto again = wish(kNative);
  EXPECT_EQ(error_of(again).error.code, "capacity-denied");
  EXPECT_FALSE(reloads());
  advance_alive(kMissedPause);
  auto later = wish(kNative);
  EXPECT_TRUE(reloads());
}

TEST_F(Windows, AReloadThatNobodyNeedsAnyMoreIsGivenUp) {
  const auto window = load_short();
  free = kPlenty;
  auto running = ask();
  take();
  auto client = wish(window + 1);
  auto late = ask();
  EXPECT_TRUE(take().empty());
  client.generation.reset();
  settle();
  EXPECT_EQ(take().size(), 1U) << "what was held back goes on";
  EXPECT_FALSE(reloads());
  EXPECT_EQ(engine->status().waiting, "");
}

TEST_F(Windows, NothingIsStoppedForAWindowWhileMemoryIsShort) {
  const auto window = load_short();
  free = kPlenty;
  admission->hold("memory is short");
  auto client = wish(window + 1);
  EXPECT_EQ(error_of(client).error.code, "capacity-denied");
  EXPECT_FALSE(reloads());
}

TEST_F(Windows, AReloadIsGivenUpWhenMemoryBecomesShortBeforeIt) {
  const auto window = load_short();
  free = kPlenty;
  auto running = ask();
  const auto id = take().at(0).id;
  auto client = wish(window + 1);
  auto late = ask();
  admission->hold("memory is short");
  worker().done(id);
  settle();
  EXPECT_FALSE(reloads());
  EXPECT_EQ(take().size(), 1U) << "what was held back goes on";
  EXPECT_EQ(error_of(client).error.code, "capacity-denied");
}

TEST_F(Windows, ChangedFilesWaitUntilMemoryIsNoLongerShort) {
  load_short();
  admission->hold("memory is short");
  engine->refresh();
  settle();
  EXPECT_FALSE(reloads());
  advance_alive(engine::kLongWait);
  EXPECT_FALSE(reloads());
  auto client = ask();
  worker().done(take().at(0).id);
  settle();
  EXPECT_FALSE(reloads());
  admission->hold("");
  auto later = ask();
  worker().done(take().at(0).id);
  settle();
  EXPECT_TRUE(reloads());
}

TEST_F(Windows, NothingIsStoppedForAWindowWhileAnotherModelWaitsForMemory) {
  const auto window = load_short();
  free = kPlenty;
  auto running = ask();
  const auto id = take().at(0).id;
  auto client = wish(window + 1);
  auto other = enter_other();
  worker().done(id);
  settle();
  EXPECT_EQ(error_of(client).error.code, "capacity-denied");
  EXPECT_FALSE(reloads());
  other->wanted = false;
  admission->changed();
  settle();
}

TEST_F(Windows, AModelThatWasToMakeWayWhileItsProcessDiedWorksAfterItsNextLoad) {
  load_short();
  worker().dies_on_kill = false;
  auto died = launcher->workers.back();
  died->hang_up();
  settle();
  advance(kExitWait);
  auto other = enter_other();
  advance(engine::kLeastResidency);
  auto client = ask();
  settle();
  EXPECT_EQ(launches(), loads) << "its memory is not free yet";
  died->tell({0, SIGKILL});
  settle();
  ASSERT_TRUE(other->seat);
  other->seat.reset();
  load();
  EXPECT_EQ(generates.size(), 1U);
}

TEST_F(Windows, AWaitThatEndsLeavesAloneWhatThatLetsGo) {
  const auto window = load_short();
  free = kPlenty;
  auto running = ask();
  take();
  terms.wait_limit = Millis(10'000);
  auto need = wish(window + 1);
  auto late = ask();
  advance_alive(Millis(12'000));
  EXPECT_EQ(error_of(need).error.code, "engine-busy");
  const auto sent = take();
  ASSERT_EQ(sent.size(), 1U) << "nobody needs the reload any more";
  worker().done(sent[0].id);
  settle();
  read(late);
  EXPECT_TRUE(late.last<engine::Done>());
}

TEST_F(Windows, AWindowThatMemoryKeptShortIsLoadedAgainWhenThereIsMore) {
  const auto window = load_short();
  EXPECT_EQ(engine->status().stale, "");
  free = kPlenty;
  EXPECT_EQ(engine->status().stale, "window");
  advance_alive(engine::kLeastResidency);
  auto client = ask();
  stop_worker();
  EXPECT_EQ(load(), kNative);
  EXPECT_EQ(generates.size(), 1U);
  EXPECT_EQ(engine->status().stale, "");
  EXPECT_FALSE(engine->status().below_floor);
  EXPECT_GT(kNative, window);
}

TEST_F(Windows, AShortWindowThatALoadDidNotMakeLongerIsGivenTime) {
  options.idle_timeout = Millis(0);
  load_short();
  free = kPlenty;
  advance_alive(engine::kLeastResidency);
  auto client = ask();
  free = kShort;  // somebody else took it
  stop_worker();
  load();
  worker().done(generates.at(0).id);
  free = kPlenty;
  loads = launches();
  advance_alive(kGrowPause - Millis(2'000));
  auto next = ask();
  EXPECT_FALSE(reloads());
  worker().done(take().at(0).id);
  advance_alive(Millis(2'000));
  auto later = ask();
  EXPECT_TRUE(reloads());
}

TEST_F(Windows, AShortWindowOfABusyEngineStays) {
  load_short();
  auto running = ask();
  take();
  free = kPlenty;
  advance_alive(engine::kLeastResidency);
  auto client = ask();
  EXPECT_FALSE(reloads());
  EXPECT_EQ(take().size(), 1U);
}

TEST_F(Windows, ALittleMoreMemoryIsNotWorthALoad) {
  load_short();
  free = kShort + 128 * kMiB;
  advance_alive(engine::kLeastResidency);
  EXPECT_EQ(engine->status().stale, "");
  auto client = ask();
  EXPECT_FALSE(reloads());
}

// --- files

TEST_F(Windows, ChangedFilesAreLoadedOnceNobodyIsAnswered) {
  load_short();
  auto running = ask();
  const auto id = take().at(0).id;
  engine->refresh();
  settle();
  EXPECT_EQ(engine->status().stale, "files");
  EXPECT_FALSE(was_stopped());
  auto late = ask();
  const auto second = take().at(0).id;
  worker().done(id);
  settle();
  EXPECT_FALSE(was_stopped());
  models->facts.model.weights = "/models/new.gguf";
  worker().done(second);
  settle();
  stop_worker();
  EXPECT_EQ(engine->status().state, State::stopped);
  auto client = ask();
  worker().exit({1, 0});  // other files are measured anew
  load();
  EXPECT_EQ(path, "/models/new.gguf");
  EXPECT_EQ(engine->status().stale, "");
}

TEST_F(Windows, AModelThatIsNeverIdleIsExchangedAllTheSame) {
  load_short();
  auto running = ask();
  const auto id = take().at(0).id;
  worker().started(id);
  engine->refresh();
  advance_alive(engine::kLongWait);
  auto late = ask();
  EXPECT_TRUE(take().empty());
  EXPECT_THAT(engine->status().waiting, HasSubstr("new files"));
  worker().done(id);
  settle();
  stop_worker();
  load();
  EXPECT_EQ(generates.size(), 1U);
}

TEST_F(Windows, RequestsDoNotPutOffTheNewFiles) {
  load_short();
  auto running = ask();
  const auto id = take().at(0).id;
  worker().started(id);
  models->facts.stamp.mtime_ns += 1;
  advance_alive(kFilesEvery);
  std::vector<Client> others;
  for (Millis past{0}; past < engine::kLongWait; past += Millis(10'000)) {
    others.push_back(ask());
    for (const auto& sent : take()) worker().done(sent.id);
    advance_alive(Millis(10'000));
  }
  auto late = ask();
  EXPECT_TRUE(take().empty());
  EXPECT_THAT(engine->status().waiting, HasSubstr("new files"));
}

TEST_F(Windows, AFileThatChangedOnTheDiskIsNoticedByTheNextRequest) {
  load_short();
  models->facts.stamp.mtime_ns += 1;
  advance_alive(kFilesEvery);
  auto client = ask();
  EXPECT_EQ(engine->status().stale, "files");
  worker().done(take().at(0).id);
  settle();
  EXPECT_TRUE(was_stopped());
}

TEST_F(Windows, AFileThatIsGoneLeavesTheLoadedModelAlone) {
  load_short();
  models->missing = true;
  advance_alive(kFilesEvery);
  auto client = ask();
  EXPECT_EQ(engine->status().stale, "");
  worker().done(take().at(0).id);
  settle();
  EXPECT_FALSE(was_stopped());
}

TEST_F(Windows, AStartThatWaitedForMemoryLoadsTheFileThatIsThereNow) {
  make();
  admission->hold("memory is short");
  auto client = ask();
  worker().exit({1, 0});
  settle();
  models->facts.model.weights = "/models/new.gguf";
  models->facts.stamp.inode = 2;
  admission->hold("");
  settle();
  worker().exit({1, 0});  // the new file's measurement
  load();
  EXPECT_EQ(path, "/models/new.gguf");
  EXPECT_EQ(generates.size(), 1U);
}

}  // namespace
}  // namespace gezel::engine_llama
