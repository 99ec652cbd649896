// Questions about the prefix cache: what reaches the worker, and what comes of its answers.
#include "engine_llama/test_worker.h"

namespace gezel::engine_llama {
namespace {

using Op = engine::CacheQuery::Op;

class Cache : public EngineTest {
 protected:
  using Answer = std::shared_ptr<std::optional<engine::EngineResult<engine::CacheReply>>>;
  Answer ask_cache(engine::CacheQuery query) {
    auto out = std::make_shared<std::optional<engine::EngineResult<engine::CacheReply>>>();
    asio::co_spawn(io, engine->cache(std::move(query)),
                   [out](const std::exception_ptr&, auto result) { *out = std::move(result); });
    settle();
    return out;
  }
  // The questions that the worker got since the last call.
  std::vector<protocol::CacheQuery> questions() {
    std::vector<protocol::CacheQuery> out;
    for (const auto& frame : worker().take()) {
      if (frame.type == protocol::FrameType::cache) out.push_back(*protocol::parse_cache_query(frame.body));
    }
    return out;
  }
  void reply(protocol::CacheReply reply) {
    worker().say(protocol::encode(reply));
    settle();
  }
  static engine::CacheQuery query(Op op) {
    engine::CacheQuery out;
    out.op = op;
    return out;
  }
};

TEST_F(Cache, IsAskedOfARunningWorkerOnly) {
  make();
  const auto answer = ask_cache(query(Op::list));
  ASSERT_TRUE(*answer);
  EXPECT_EQ((*answer)->error().error.code, "model_not_loaded");
  EXPECT_EQ((*answer)->error().http_hint, 404);
  EXPECT_EQ(launches(), 0U);
}

TEST_F(Cache, AnswersReachWhoeverAsked) {
  make_ready(1);
  auto inspect = query(Op::inspect);
  inspect.node = 7;
  const auto first = ask_cache(inspect);
  const auto second = ask_cache(query(Op::flush));
  const auto asked = questions();
  ASSERT_EQ(asked.size(), 2U);
  EXPECT_EQ(asked[0].op, "inspect");
  EXPECT_EQ(asked[0].node, 7U);
  EXPECT_TRUE(asked[0].text);
  EXPECT_EQ(asked[1].op, "flush");
  EXPECT_FALSE(asked[1].text);
  reply({.id = asked[1].id, .count = 5});
  EXPECT_FALSE(*first);
  ASSERT_TRUE(*second);
  EXPECT_EQ((*second)->value().count, 5);
  protocol::CacheReply node{.id = asked[0].id};
  node.nodes = {{.id = 7, .kind = "system", .last_use_ms = 1'700'000'000'000}};
  node.text = "You are terse.";
  reply(node);
  ASSERT_TRUE(*first && **first);
  EXPECT_EQ((*first)->value().nodes.at(0).last_use, WallTime(std::chrono::seconds(1'700'000'000)));
  EXPECT_EQ((*first)->value().text, "You are terse.");
  EXPECT_FALSE(engine->busy());
}

TEST_F(Cache, RefusalsKeepTheirCode) {
  make_ready(1);
  for (const auto& [code, status] : {std::pair("cache-pin-limit", 409), std::pair("cache-node-unknown", 404),
                                     std::pair("context-overflow", 400), std::pair("engine-internal", 500)}) {
    const auto answer = ask_cache(query(Op::pin));
    reply({.id = questions().at(0).id, .code = code, .message = "no"});
    ASSERT_TRUE(*answer) << code;
    EXPECT_EQ((*answer)->error().error.code, code);
    EXPECT_EQ((*answer)->error().http_hint, status);
    EXPECT_EQ((*answer)->error().error.message, "no");
  }
}

TEST_F(Cache, AWorkerHearsOfTenantsOnlyWhereTheyShareNothing) {
  for (const bool apart : {false, true}) {
    options.prompt_cache.per_tenant = apart;
    make_ready(1);
    auto warm = query(Op::warm);
    warm.request.emplace().tenant = "app";
    const auto answer = ask_cache(warm);
    EXPECT_EQ(questions().at(0).request->tenant, apart ? "app" : "");
    stop();
  }
}

TEST_F(Cache, AnAnswerThatNobodyWaitsForIsNoFault) {
  make_ready(1);
  reply({.id = 99, .count = 5});
  EXPECT_EQ(engine->status().state, engine::State::ready);
}

TEST_F(Cache, StatisticsAreNotTakenForAnAnswer) {
  make_ready(1);
  const auto answer = ask_cache(query(Op::list));
  protocol::Stats stats;
  stats.decode_tps = 42;
  worker().say(protocol::encode(stats));
  settle();
  EXPECT_FALSE(*answer);
  EXPECT_EQ(engine->status().decode_tps, 42);
}

TEST_F(Cache, ASilentWorkerIsGivenUp) {
  make_ready(1);
  const auto answer = ask_cache(query(Op::list));
  const auto warm = ask_cache(query(Op::warm));
  advance_alive(kCacheTime);
  ASSERT_TRUE(*answer);
  EXPECT_EQ((*answer)->error().error.code, "turn-timeout");
  EXPECT_FALSE(*warm) << "a prompt may take its time";
}

TEST_F(Cache, TheEndOfTheWorkerEndsTheQuestions) {
  make_ready(1);
  const auto answer = ask_cache(query(Op::warm));
  stop();
  ASSERT_TRUE(*answer);
  EXPECT_EQ((*answer)->error().error.code, "stream-dropped");
}

TEST_F(Cache, QuestionsAreBounded) {
  make_ready(1);
  std::vector<Answer> answers;
  for (std::size_t i = 0; i < kMostCacheQuestions; ++i) answers.push_back(ask_cache(query(Op::list)));
  EXPECT_EQ(questions().size(), kMostCacheQuestions);
  const auto one_more = ask_cache(query(Op::list));
  ASSERT_TRUE(*one_more);
  EXPECT_EQ((*one_more)->error().error.code, "engine-busy");
}

TEST_F(Cache, PromptsThatAreComputedHoldUpNoQuestions) {
  make_ready(1);
  std::vector<Answer> warms;
  for (std::size_t i = 0; i < kMostWarms; ++i) warms.push_back(ask_cache(query(Op::warm)));
  const auto one_more = ask_cache(query(Op::warm));
  ASSERT_TRUE(*one_more);
  EXPECT_EQ((*one_more)->error().error.code, "engine-busy");
  std::vector<Answer> answers;
  for (std::size_t i = 0; i < kMostCacheQuestions; ++i) answers.push_back(ask_cache(query(Op::drop)));
  EXPECT_EQ(questions().size(), kMostWarms + kMostCacheQuestions);
}

TEST_F(Cache, APromptThatIsComputedIsWork) {
  options.idle_timeout = Millis(60'000);
  make_ready(1);
  const auto warm = ask_cache(query(Op::warm));
  EXPECT_FALSE(engine->busy()) << "nobody is being answered: who wants to stop it may";
  advance_alive(Millis(180'000));
  EXPECT_EQ(engine->status().state, engine::State::ready) << "it is not unloaded for being idle";
  EXPECT_EQ(engine->status().idle_ms, 0);
  ASSERT_FALSE(*warm);
  reply({.id = questions().back().id, .tokens = 5});
  ASSERT_TRUE(*warm && **warm);
  advance_alive(Millis(61'000));
  EXPECT_NE(engine->status().state, engine::State::ready);
}

TEST_F(Cache, AnswersOfRequestsSayWhereTheirTokensCameFrom) {
  make_ready(1);
  auto client = ask();
  protocol::Started started{.id = worker().take_requests().at(0), .prompt_tokens = 12, .cached_tokens = 4};
  started.prefix_break = {.matched = 4, .previous = 30};
  worker().say(protocol::encode(started));
  protocol::Done done{.id = started.id, .reason = "stop", .prompt_tokens = 12, .cached_tokens = 4};
  done.cached = {.slot = 1, .host = 1, .disk = 1, .coalesced = 1};
  done.prefix_break = {.matched = 4, .previous = 30, .at_message = 1, .now_text = "b"};
  worker().say(protocol::encode(done));
  settle();
  read(client);
  EXPECT_EQ(std::get<engine::Started>(client.events.at(0)).prefix_break->matched, 4);
  const auto& end = std::get<engine::Done>(client.events.at(1));
  EXPECT_EQ(end.usage.cached_from.disk, 1);
  EXPECT_EQ(end.prefix_break->at_message, 1);
  EXPECT_EQ(end.prefix_break->now, "b");
}

TEST_F(Cache, TurnsAreCountedWhileTheWorkerLives) {
  make_ready(1);
  session = "default:s";
  auto client = ask();
  protocol::Done done{.id = worker().take_requests().at(0), .reason = "stop", .prompt_tokens = 12};
  done.completion_tokens = 3;
  done.cached_tokens = done.cached.disk = 4;
  worker().say(protocol::encode(done));
  settle();
  const auto use = engine->cache_use();
  ASSERT_TRUE(use);
  EXPECT_EQ(use->turns.hits, 1U);
  EXPECT_EQ(use->turns.disk, 1U);
  ASSERT_EQ(use->turns.sessions.size(), 1U);
  EXPECT_EQ(use->turns.sessions[0].session, "default:s");
  EXPECT_EQ(use->turns.sessions[0].tokens, 15);
  stop();
  EXPECT_FALSE(engine->cache_use());
}

}  // namespace
}  // namespace gezel::engine_llama
