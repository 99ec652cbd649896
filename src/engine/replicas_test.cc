// Workers that exist only on paper behind the interface of one engine.
#include "engine/replicas.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>

#include "engine/wakeup.h"

namespace gezel::engine {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Op = CacheQuery::Op;

struct PaperWorker final : Engine {
  explicit PaperWorker(asio::io_context& io) : settled(io.get_executor()) {}
  Status state;
  bool working = false;
  std::optional<EngineError> denied;  // what a load comes to
  bool slow = false;                  // a load does not end by itself
  int loads = 0, stops = 0, refreshes = 0, plans = 0;
  std::vector<std::string> sessions;  // of the requests that came
  std::vector<CacheQuery> asked;      // about its cache
  CacheReply cached;
  std::optional<EngineError> cache_error;
  CacheUse use;
  int calibrated = 0, stats = 0;
  Manners manners;
  Wakeup settled;

  Status status() const override { return state; }
  asio::awaitable<EngineResult<>> ensure_ready() override {
    if (state.state == State::ready) co_return EngineResult<>();
    ++loads;
    state.state = State::starting;
    while (slow) co_await settled.wait();
    if (denied) {
      state.state = State::stopped;
      co_return std::unexpected(*denied);
    }
    become_ready();
    co_return EngineResult<>();
  }
  void become_ready() {
    state.state = State::ready;
    state.slots = 2;
    state.bytes = 100;
    state.context = 2048;
    state.pid = 7;
  }
  asio::awaitable<EngineResult<std::unique_ptr<Generation>>> generate(
      prompt::GenerateRequest request) override {
    sessions.push_back(request.session_key);
    if (state.state == State::stopped) become_ready();
    co_return std::unexpected(make_error("engine-busy", "paper answers nothing"));
  }
  bool busy() const override { return working; }
  void refresh() override { ++refreshes; }
  asio::awaitable<StopOutcome> stop() override {
    ++stops;
    const bool was_running = state.state != State::stopped;
    state.state = State::stopped;
    co_return StopOutcome{was_running};
  }
  asio::awaitable<std::optional<std::string>> worker_stats() override {
    ++stats;
    co_return "{}";
  }
  std::string calibration() const override { return "measured"; }
  bool calibrate() override {
    const bool loaded = state.state == State::ready;
    calibrated += loaded ? 1 : 0;
    return loaded;
  }
  std::optional<CacheUse> cache_use() const override {
    return state.state == State::ready ? std::optional(use) : std::nullopt;
  }
  asio::awaitable<EngineResult<CacheReply>> cache(CacheQuery query) override {
    asked.push_back(std::move(query));
    if (cache_error) co_return std::unexpected(*cache_error);
    co_return cached;
  }
  void set_manners(Manners m) override { manners = m; }
  asio::awaitable<EngineResult<capacity::MemoryPlan>> plan(MemoryWish) override {
    ++plans;
    co_return capacity::MemoryPlan{};
  }
};

class ReplicasTest : public testing::Test {
 protected:
  void make(int count) {
    engine = make_replicas({.loop = io.get_executor(), .clock = clock, .count = count, .make = [this](int) {
                              auto worker = std::make_unique<PaperWorker>(io);
                              workers.push_back(worker.get());
                              return worker;
                            }});
  }
  void settle() {
    io.restart();
    io.poll();
  }
  void ask(std::string session = {}) {
    prompt::GenerateRequest request;
    request.session_key = std::move(session);
    asio::co_spawn(io, engine->generate(std::move(request)), asio::detached);
    settle();
  }
  void make_ready(int count) {
    make(count);
    for (auto* worker : workers) worker->become_ready();
  }
  EngineResult<CacheReply> cache(Op op, std::uint64_t node = 0) {
    CacheQuery query;
    query.op = op;
    query.node = node;
    if (node == 0) query.session = "s";
    return run(engine->cache(std::move(query)));
  }
  static EngineError error(std::string code) {
    auto out = make_error("invalid-request", "no");
    out.error.code = std::move(code);
    return out;
  }
  template <class T>
  T run(asio::awaitable<T> work) {
    std::optional<T> out;
    asio::co_spawn(io, std::move(work), [&](const std::exception_ptr&, T value) { out = std::move(value); });
    settle();
    return std::move(*out);
  }

  asio::io_context io;
  ManualClock clock;
  std::vector<PaperWorker*> workers;
  std::unique_ptr<Engine> engine;
};

TEST_F(ReplicasTest, TheFirstIsLoadedAsAModelsOnlyOneWouldBe) {
  make(3);
  ASSERT_EQ(workers.size(), 3u);
  ask();
  EXPECT_EQ(workers[0]->sessions.size(), 1u);
  EXPECT_EQ(workers[1]->loads + workers[2]->loads, 0);
}

TEST_F(ReplicasTest, ASecondConversationLoadsAFurtherWorkerForThoseToCome) {
  make(2);
  ask("a");
  EXPECT_EQ(workers[1]->loads, 0);
  workers[1]->slow = true;
  ask("b");
  EXPECT_THAT(workers[0]->sessions, ElementsAre("a", "b")) << "nobody waits for the further worker";
  EXPECT_EQ(workers[1]->loads, 1);
  ask("c");
  EXPECT_EQ(workers[1]->loads, 1) << "it is being loaded already";
  workers[1]->slow = false;
  workers[1]->settled.notify();
  settle();
  ask("d");
  EXPECT_THAT(workers[1]->sessions, ElementsAre("d"));
  ask("a");
  EXPECT_EQ(workers[0]->sessions.back(), "a") << "a conversation stays where its caches are warm";
}

TEST_F(ReplicasTest, ARequestOfNoConversationLoadsOneOnlyWhereTheLoadedAreBusy) {
  make(2);
  ask();
  ask();
  EXPECT_EQ(workers[1]->loads, 0);
  workers[0]->state.slots_busy = 1;
  ask();
  EXPECT_EQ(workers[1]->loads, 1);
  ask();
  EXPECT_EQ(workers[1]->sessions.size(), 1u);
}

TEST_F(ReplicasTest, AWorkerThatFoundNoRoomIsTriedAgainAfterAMinute) {
  make(2);
  workers[1]->denied = make_error("capacity-denied", "no room");
  workers[0]->become_ready();
  workers[0]->state.slots_busy = 1;
  ask();
  ask();
  EXPECT_EQ(workers[1]->loads, 1);
  EXPECT_EQ(workers[0]->sessions.size(), 2u) << "requests go on where there is a worker";
  clock.advance(kReplicaPause);
  ask();
  EXPECT_EQ(workers[1]->loads, 2);
}

TEST_F(ReplicasTest, AWorkerThatMakesWayGetsNothingNew) {
  make(2);
  for (auto* worker : workers) worker->become_ready();
  ask("a");
  workers[0]->state.draining = true;
  ask("a");
  ask("b");
  EXPECT_THAT(workers[0]->sessions, ElementsAre("a"));
  EXPECT_THAT(workers[1]->sessions, ElementsAre("a", "b"));
}

TEST_F(ReplicasTest, TheStatusAddsUpAndNamesEachWorker) {
  make(3);
  workers[0]->become_ready();
  workers[1]->become_ready();
  workers[1]->state.context = 1024;
  workers[1]->state.queued = 3;
  workers[1]->state.slots_busy = 2;
  workers[1]->state.lanes[0] = {2, 3};
  workers[0]->state.lanes[0] = {1, 0};
  const auto status = engine->status();
  EXPECT_EQ(status.state, State::ready);
  EXPECT_EQ(status.bytes, 200u);
  EXPECT_EQ(status.slots, 4);
  EXPECT_EQ(status.slots_busy, 2);
  EXPECT_EQ(status.queued, 3);
  EXPECT_EQ(status.lanes[0].running, 3);
  EXPECT_EQ(status.context, 1024) << "what every request is granted";
  ASSERT_EQ(status.replicas.size(), 2u);
  EXPECT_EQ(status.replicas[1].replica, 1);
  EXPECT_EQ(status.replicas[1].queued, 3);
}

TEST_F(ReplicasTest, ItIsIdleAndUnloadedWhenTheLastOfThemIs) {
  make(2);
  for (auto* worker : workers) worker->become_ready();
  workers[0]->state.idle_ms = 50'000;
  workers[1]->state.idle_ms = 10'000;
  workers[0]->state.unload_at = WallTime(std::chrono::seconds(10));
  workers[1]->state.unload_at = WallTime(std::chrono::seconds(50));
  EXPECT_EQ(engine->status().idle_ms, 10'000);
  EXPECT_EQ(engine->status().unload_at, workers[1]->state.unload_at);
  workers[1]->state.unload_at.reset();  // it works
  EXPECT_EQ(engine->status().unload_at, std::nullopt);
}

TEST_F(ReplicasTest, StoppingEndsAllOfThem) {
  make(2);
  EXPECT_FALSE(run(engine->stop()).was_running);
  workers[1]->become_ready();
  EXPECT_TRUE(run(engine->stop()).was_running);
  EXPECT_EQ(workers[0]->stops, 2);
  EXPECT_EQ(workers[1]->stops, 2);
}

TEST_F(ReplicasTest, NewFilesStopIdleWorkersAndAreToldToBusyOnes) {
  make(3);
  workers[0]->become_ready();
  workers[1]->become_ready();
  workers[1]->working = true;
  EXPECT_TRUE(engine->busy());
  engine->refresh();
  settle();
  EXPECT_EQ(workers[0]->stops, 1);
  EXPECT_EQ(workers[1]->refreshes, 1);
  EXPECT_EQ(workers[1]->stops + workers[2]->stops, 0);
}

// Every word about the cache reaches whoever has it.
TEST_F(ReplicasTest, WhatIsAboutAConversationOrEverythingGoesToAllThatAreLoaded) {
  make_ready(3);
  workers[2]->state.state = State::stopped;
  for (auto* worker : workers) worker->cached.count = 2;
  for (const Op op : {Op::pin, Op::unpin, Op::drop, Op::flush}) {
    const auto reply = cache(op);
    ASSERT_TRUE(reply) << cache_op_name(op);
    EXPECT_EQ(reply->count, 4) << cache_op_name(op);
    for (const int i : {0, 1}) EXPECT_EQ(workers[static_cast<std::size_t>(i)]->asked.back().op, op);
  }
  EXPECT_THAT(workers[2]->asked, IsEmpty());
}

TEST_F(ReplicasTest, EveryNodeThatIsListedCanBeAskedAbout) {
  make_ready(2);
  for (auto* worker : workers) {
    worker->cached.nodes.resize(2);
    worker->cached.nodes[0].id = 7;
    worker->cached.nodes[1].id = 8;
    worker->cached.nodes[1].parent = 7;
  }
  const auto list = cache(Op::list);
  ASSERT_TRUE(list);
  ASSERT_EQ(list->nodes.size(), 4u);
  EXPECT_NE(list->nodes[0].id, list->nodes[2].id);
  for (std::size_t i : {0u, 2u}) {
    EXPECT_EQ(list->nodes[i].parent, 0u);
    EXPECT_EQ(list->nodes[i + 1].parent, list->nodes[i].id);
  }
  for (const Op op : {Op::inspect, Op::pin, Op::unpin, Op::drop}) {
    for (auto* worker : workers) worker->asked.clear();
    ASSERT_TRUE(cache(op, list->nodes[3].id));
    EXPECT_THAT(workers[0]->asked, IsEmpty()) << cache_op_name(op);
    ASSERT_EQ(workers[1]->asked.size(), 1u) << cache_op_name(op);
    EXPECT_EQ(workers[1]->asked[0].node, 8u) << cache_op_name(op);
  }
}

TEST_F(ReplicasTest, ANodeThatIsNoWorkersIsUnknown) {
  make_ready(2);
  for (const std::uint64_t node : {std::uint64_t{1}, std::uint64_t{kMostReplicas + 2}}) {
    const auto reply = cache(Op::drop, node);
    ASSERT_FALSE(reply);
    EXPECT_EQ(reply.error().error.code, "cache-node-unknown");
  }
  EXPECT_THAT(workers[0]->asked, IsEmpty());
  EXPECT_THAT(workers[1]->asked, IsEmpty());
}

TEST_F(ReplicasTest, AWorkerThatHasNothingOfAConversationIsNoErrorWhereAnotherHas) {
  make_ready(2);
  workers[0]->cache_error = error("cache-node-unknown");
  EXPECT_TRUE(cache(Op::pin));
  workers[1]->cache_error = error("cache-node-unknown");
  EXPECT_EQ(cache(Op::pin).error().error.code, "cache-node-unknown");
  workers[1]->cache_error = error("cache-pins-full");
  EXPECT_EQ(cache(Op::pin).error().error.code, "cache-pins-full");
}

TEST_F(ReplicasTest, APromptIsWarmedAndExplainedWhereItsConversationIs) {
  make_ready(2);
  ask("a");
  ask("b");
  for (const Op op : {Op::warm, Op::explain}) {
    CacheQuery query;
    query.op = op;
    query.request.emplace();
    query.request->session_key = "b";
    ASSERT_TRUE(run(engine->cache(std::move(query))));
    ASSERT_FALSE(workers[1]->asked.empty());
    EXPECT_EQ(workers[1]->asked.back().op, op);
  }
  EXPECT_THAT(workers[0]->asked, IsEmpty());
}

TEST_F(ReplicasTest, WhatIsKeptOfPromptsAddsUp) {
  make_ready(3);
  workers[2]->state.state = State::stopped;
  workers[0]->use = {.turns = {.hits = 3, .misses = 1, .recent_hit_rate = 0.75}, .bytes = 10, .budget = 100};
  workers[1]->use = {.turns = {.hits = 0, .misses = 4, .recent_hit_rate = 0}, .bytes = 20, .budget = 100};
  workers[0]->use.turns.sessions = {{.session = "old", .last_used = WallTime(std::chrono::seconds(1))}};
  workers[1]->use.turns.sessions = {{.session = "new", .last_used = WallTime(std::chrono::seconds(2))}};
  run(engine->worker_stats());
  EXPECT_EQ(workers[0]->stats + workers[1]->stats, 2) << "what each holds now";
  const auto use = engine->cache_use();
  ASSERT_TRUE(use);
  EXPECT_EQ(use->bytes, 30u);
  EXPECT_EQ(use->turns.hits, 3u);
  EXPECT_EQ(use->turns.misses, 5u);
  EXPECT_DOUBLE_EQ(use->turns.recent_hit_rate, 3.0 / 8);
  ASSERT_EQ(use->turns.sessions.size(), 2u);
  EXPECT_EQ(use->turns.sessions[0].session, "new");
}

TEST_F(ReplicasTest, AllThatAreLoadedAreMeasured) {
  make_ready(3);
  workers[0]->state.state = State::stopped;
  EXPECT_TRUE(engine->calibrate());
  EXPECT_EQ(workers[1]->calibrated + workers[2]->calibrated, 2);
  EXPECT_EQ(engine->calibration(), "measured");
  for (auto* worker : workers) worker->state.state = State::stopped;
  EXPECT_FALSE(engine->calibrate());
}

TEST_F(ReplicasTest, MannersAreForAllAndAPlanIsTheFirsts) {
  make(2);
  engine->set_manners({.yielding = true});
  EXPECT_TRUE(workers[0]->manners.yielding && workers[1]->manners.yielding);
  EXPECT_TRUE(run(engine->plan({})));
  EXPECT_EQ(workers[0]->plans, 1);
  EXPECT_EQ(workers[1]->plans, 0);
}

}  // namespace
}  // namespace gezel::engine
