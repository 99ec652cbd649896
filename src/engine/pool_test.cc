#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>

#include "engine/pool.h"

namespace gezel::engine {
namespace {

class FakeEngine final : public Engine {
 public:
  Status state;
  bool working = false;
  int stops = 0, refreshes = 0;
  Manners manners;

  Status status() const override { return state; }
  asio::awaitable<EngineResult<>> ensure_ready() override { co_return EngineResult<>(); }
  asio::awaitable<EngineResult<std::unique_ptr<Generation>>> generate(prompt::GenerateRequest) override {
    co_return std::unexpected(make_error("engine-busy", "fake"));
  }
  bool busy() const override { return working; }
  void refresh() override { ++refreshes; }
  asio::awaitable<StopOutcome> stop() override {
    ++stops;
    const bool was_running = state.state != State::stopped;
    state.state = State::stopped;
    co_return StopOutcome{was_running};
  }
  asio::awaitable<std::optional<std::string>> worker_stats() override { co_return std::nullopt; }
  void set_manners(Manners m) override { manners = m; }
  asio::awaitable<EngineResult<capacity::MemoryPlan>> plan(MemoryWish) override {
    co_return std::unexpected(make_error("unsupported-feature", "no plans here"));
  }
};

class Pool : public testing::Test {
 protected:
  FakeEngine& make(const std::string& id) { return static_cast<FakeEngine&>(**pool.get(id)); }
  template <class T>
  T run(asio::awaitable<T> work) {
    std::optional<T> out;
    asio::co_spawn(io, std::move(work), [&](const std::exception_ptr& e, T value) {
      ASSERT_FALSE(e);
      out = std::move(value);
    });
    io.restart();
    io.run();
    return std::move(*out);
  }

  asio::io_context io;
  EnginePool pool{[](const std::string&) { return std::make_unique<FakeEngine>(); }};
};

TEST_F(Pool, AModelWithNewFilesIsStoppedWhereNobodyUsesItAndToldWhereSomebodyDoes) {
  auto& idle = make("idle");
  idle.state.state = State::ready;
  auto& busy = make("busy");
  auto& unloaded = make("unloaded");
  busy.working = true;
  run([](EnginePool& all) -> asio::awaitable<bool> {
    for (const char* model : {"idle", "busy", "unloaded", "nobody"}) co_await all.refresh(model);
    co_return true;
  }(pool));
  EXPECT_EQ(idle.stops, 1);
  EXPECT_EQ(idle.refreshes, 0);
  EXPECT_EQ(unloaded.stops, 0);
  EXPECT_EQ(busy.stops, 0);
  EXPECT_EQ(busy.refreshes, 1);
}

TEST_F(Pool, MakesOneEngineAModelAndKeepsIt) {
  EXPECT_EQ(&make("a"), &make("a"));
  EXPECT_NE(&make("a"), &make("b"));
  EXPECT_EQ(pool.find("c"), nullptr);
}

TEST_F(Pool, ListsOnlyEnginesThatAreMoreThanAName) {
  make("a");
  make("b").state.state = State::ready;
  make("c").state.state = State::starting;
  const auto listed = pool.list();
  ASSERT_EQ(listed.size(), 2U);
  EXPECT_EQ(listed[0].model_id, "b");
  EXPECT_EQ(listed[1].model_id, "c");
}

TEST_F(Pool, StoppingAModelThatIsNotLoadedIsNotFound) {
  make("a");
  for (const auto* id : {"a", "nowhere"}) {
    const auto stopped = run(pool.stop(id, true));
    ASSERT_FALSE(stopped);
    EXPECT_EQ(stopped.error().http_hint, 404);
    EXPECT_EQ(stopped.error().error.code, "model_not_loaded");
  }
}

TEST_F(Pool, ABusyModelIsStoppedOnlyByForce) {
  auto& engine = make("a");
  engine.state.state = State::ready;
  engine.working = true;
  const auto refused = run(pool.stop("a", false));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().http_hint, 409);
  EXPECT_EQ(engine.stops, 0);
  EXPECT_TRUE(run(pool.stop("a", true)));
  EXPECT_EQ(engine.stops, 1);
}

TEST_F(Pool, StopAllStopsEveryEngineAndRefusesFromThenOn) {
  auto& a = make("a");
  auto& b = make("b");
  a.state.state = b.state.state = State::ready;
  asio::co_spawn(io, pool.stop_all(), asio::detached);
  io.run();
  EXPECT_EQ(a.stops + b.stops, 2);
  const auto refused = pool.get("c");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().error.code, "engine-evicted");
}

TEST_F(Pool, EnginesThatAreMadeLaterMindTheirNeighboursToo) {
  auto& a = make("a");
  pool.set_manners({.yielding = true});
  EXPECT_TRUE(a.manners.yielding);
  EXPECT_TRUE(make("b").manners.yielding);
  pool.set_manners({});
  EXPECT_FALSE(a.manners.yielding);
}

TEST_F(Pool, StopAllOfAnEmptyPoolEnds) {
  asio::co_spawn(io, pool.stop_all(), asio::detached);
  io.run();
}

}  // namespace
}  // namespace gezel::engine
