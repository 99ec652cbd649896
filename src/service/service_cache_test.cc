#include "service/test_service.h"

namespace gezel::service::testing {
namespace {

using Op = engine::CacheQuery::Op;
using Outcome = CacheAnswer::Outcome;

class ServiceCache : public ServiceTest {
 protected:
  static api::CacheRequest request(Op op, const std::string& model = "a") {
    api::CacheRequest out;
    out.model = model;
    out.query.op = op;
    if (op == Op::warm || op == Op::explain) out.query.request.emplace();
    return out;
  }
  FakeState& engine(const std::string& id = "llama-cpp:a") { return *engine_of(id); }
};

TEST_F(ServiceCache, LookingNeverStartsAnything) {
  install("a");
  start();
  for (const Op op : {Op::list, Op::inspect, Op::explain, Op::pin, Op::unpin, Op::drop, Op::flush})
    EXPECT_EQ(wait(service->cache(request(op))).error().code, "model_not_loaded");
  const auto warm = wait(service->cache(request(Op::warm)));
  ASSERT_TRUE(warm);
  EXPECT_EQ(warm->outcome, Outcome::not_loaded);
  EXPECT_EQ(engine().status.state, engine::State::stopped);
  EXPECT_TRUE(engine().cache_asked.empty());
  EXPECT_EQ(wait(service->cache(request(Op::list, "nope"))).error().code, "model_not_found");
}

TEST_F(ServiceCache, TheLoadedModelIsAsked) {
  install("a");
  start();
  ASSERT_TRUE(chat("a"));
  engine().cached.count = 5;
  const auto answer = wait(service->cache(request(Op::flush)));
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->model, "llama-cpp:a");
  EXPECT_EQ(answer->reply.count, 5);
  EXPECT_EQ(engine().cache_asked.at(0).op, Op::flush);
}

TEST_F(ServiceCache, WarmingHappensInTheBackground) {
  install("a");
  start();
  ASSERT_TRUE(chat("a"));
  const auto answer = wait(service->cache(request(Op::warm)));
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->outcome, Outcome::accepted);
  settle();
  ASSERT_EQ(engine().cache_asked.size(), 1U);
  EXPECT_EQ(engine().cache_asked[0].request->lane, prompt::Lane::background);
}

TEST_F(ServiceCache, WarmingLoadsTheModelWhenItIsTo) {
  install("a");
  start();
  auto warm = request(Op::warm);
  warm.start = warm.wait = true;
  engine().cached.tokens = 12;
  const auto answer = wait(service->cache(warm));
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->outcome, Outcome::done);
  EXPECT_EQ(answer->reply.tokens, 12);
  EXPECT_EQ(engine().status.state, engine::State::ready);

  engine().status = {};
  engine().refuses = engine::make_error("capacity-denied", "no room");
  EXPECT_EQ(wait(service->cache(warm)).error().code, "capacity_denied");
  warm.wait = false;
  EXPECT_EQ(wait(service->cache(warm))->outcome, Outcome::accepted) << "it is told in the log";
}

TEST_F(ServiceCache, StatisticsAreOfTheLoadedModels) {
  install("a");
  install("b");
  start();
  EXPECT_EQ(to_json(wait(service->cache_stats())), R"({"providers":[]})");
  ASSERT_TRUE(chat("a"));
  engine().use.turns.hits = 3;
  engine().use.turns.sessions = {{.session = "default:s", .tokens = 110, .bytes = 2'200, .last_used = {}}};
  const auto stats = wait(service->cache_stats());
  ASSERT_EQ(stats.at("providers").as_array().size(), 1U);
  const auto& provider = stats.at("providers").as_array()[0].as_object();
  EXPECT_EQ(provider.at("engineKey"), "llama-cpp:a:0");
  EXPECT_EQ(provider.at("hits"), 3U);
  EXPECT_EQ(provider.at("warmSessionCount"), 1U);
  EXPECT_EQ(provider.at("sessions").as_array()[0].at("sessionId"), "default:s");
}

TEST_F(ServiceCache, ASessionIsForgottenByEveryLoadedModel) {
  for (const char* id : {"a", "b", "c"}) install(id);
  start();
  ASSERT_TRUE(chat("a"));
  ASSERT_TRUE(chat("b"));
  EXPECT_TRUE(wait(service->evict_session("default:s")));
  for (const char* id : {"llama-cpp:a", "llama-cpp:b"}) {
    ASSERT_EQ(engine(id).cache_asked.size(), 1U);
    EXPECT_EQ(engine(id).cache_asked[0].op, Op::drop);
    EXPECT_EQ(engine(id).cache_asked[0].session, "default:s");
  }
  EXPECT_TRUE(engine("llama-cpp:c").cache_asked.empty());
}

// Whoever deletes a conversation must hear that it is still there.
TEST_F(ServiceCache, WhatIsNotForgottenIsAnErrorAfterTheOthersForgot) {
  for (const char* id : {"a", "b"}) install(id);
  start();
  ASSERT_TRUE(chat("a"));
  ASSERT_TRUE(chat("b"));
  for (const char* code : {"engine-busy", "turn-timeout"}) {
    for (const char* id : {"llama-cpp:a", "llama-cpp:b"}) engine(id).cache_asked.clear();
    engine("llama-cpp:a").cache_refuses = engine::make_error(code, "not now");
    EXPECT_FALSE(wait(service->evict_session("default:s"))) << code;
    EXPECT_FALSE(wait(service->clear_cache("llama-cpp"))) << code;
    EXPECT_EQ(engine("llama-cpp:b").cache_asked.size(), 2U) << code;
  }
}

TEST_F(ServiceCache, AModelThatKeepsNothingHasForgotten) {
  install("a");
  start();
  ASSERT_TRUE(chat("a"));
  for (const char* code : {"model_not_loaded", "cache-off", "cache-node-unknown", "unsupported-feature"}) {
    engine().cache_refuses = engine::make_error("invalid-request", "nothing here");
    engine().cache_refuses->error.code = code;
    EXPECT_TRUE(wait(service->evict_session("default:s"))) << code;
    EXPECT_TRUE(wait(service->clear_cache("llama-cpp"))) << code;
  }
}

TEST_F(ServiceCache, ClearingDropsWhatBeginsATreeOfTheEnginesMeant) {
  for (const char* id : {"a", "b"}) install(id);
  start();
  ASSERT_TRUE(chat("a"));
  ASSERT_TRUE(chat("b"));
  engine("llama-cpp:a").cached.nodes.resize(3);
  for (std::uint64_t i = 0; i < 3; ++i) engine("llama-cpp:a").cached.nodes[i].id = i + 1;
  engine("llama-cpp:a").cached.nodes[1].parent = 1;
  EXPECT_TRUE(wait(service->clear_cache("llama-cpp:a:0")));
  const auto& asked = engine("llama-cpp:a").cache_asked;
  ASSERT_EQ(asked.size(), 3U);
  EXPECT_EQ(asked[1].node, 1U);
  EXPECT_EQ(asked[2].node, 3U);
  EXPECT_TRUE(engine("llama-cpp:b").cache_asked.empty());
  wait(service->clear_cache("llama-cpp"));
  EXPECT_EQ(engine("llama-cpp:b").cache_asked.size(), 1U);
  wait(service->clear_cache("nobody"));
}

}  // namespace
}  // namespace gezel::service::testing
