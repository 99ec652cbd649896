#include <gmock/gmock.h>

#include "http/test_support.h"

namespace gezel::http::test {
namespace {

using testing::HasSubstr;
using testing::Not;
using Op = engine::CacheQuery::Op;
using Outcome = service::CacheAnswer::Outcome;

constexpr std::string_view kPrompt = R"({"model":"m","messages":[{"role":"user","content":"hi"}])";

class CacheHandlers : public RouterTest {
 protected:
  RecordedResponse& change(const std::string& op, std::string_view body) {
    return send(post("/api/cache/" + op, std::string(body), "client"));
  }
};

TEST_F(CacheHandlers, AreForManagementOnly) {
  EXPECT_EQ(send(get("/api/cache?model=m")).status, 403);
  EXPECT_EQ(send(get("/api/cache/7?model=m")).status, 403);
  for (const char* op : {"warm", "explain", "pin", "unpin", "drop", "flush"})
    EXPECT_EQ(send(post(std::string("/api/cache/") + op, "{}")).status, 403) << op;
}

TEST_F(CacheHandlers, ListTheNodesOfAModel) {
  inference.cache_answer.reply.nodes = {{.id = 7, .kind = "system"}};
  inference.cache_answer.reply.count = 1;
  const auto& response = send(get("/api/cache?model=llama-cpp%3Am", "client"));
  EXPECT_EQ(response.status, 200);
  EXPECT_THAT(response.body, HasSubstr(R"({"model":"llama-cpp:m","count":1,"nodes":[{"id":7,"parent":null)"));
  EXPECT_EQ(inference.cache_asked->query.op, Op::list);
  EXPECT_THAT(send(get("/api/cache", "client")).body, HasSubstr("?model="));
}

TEST_F(CacheHandlers, ShowANodeAndKeepItsTextOutOfCaches) {
  inference.cache_answer.reply.nodes = {{.id = 7}};
  inference.cache_answer.reply.text = "You are terse.";
  const auto& response = send(get("/api/cache/7?model=m", "client"));
  EXPECT_THAT(response.body, HasSubstr(R"("text":"You are terse.")"));
  EXPECT_EQ(response.header("cache-control"), "no-store");
  EXPECT_EQ(inference.cache_asked->query.node, 7U);
  for (const char* id : {"0", "-1", "7x", "all", "99999999999999999999"})
    EXPECT_EQ(send(get(std::string("/api/cache/") + id + "?model=m", "client")).status, 404) << id;
}

TEST_F(CacheHandlers, ChangeWhatIsKept) {
  inference.cache_answer.reply.count = 2;
  EXPECT_EQ(change("pin", R"({"model":"m","id":7})").body, R"({"ok":true,"model":"m","nodes":2})");
  EXPECT_EQ(inference.cache_asked->query.op, Op::pin);
  change("unpin", R"({"model":"m","id":7})");
  EXPECT_EQ(inference.cache_asked->query.op, Op::unpin);
  change("drop", R"({"model":"m","session":"s"})");
  EXPECT_EQ(inference.cache_asked->query.session, "default:s");
  EXPECT_EQ(change("flush", R"({"model":"m"})").body, R"({"ok":true,"model":"m","records":2})");
  EXPECT_EQ(change("drop", R"({"model":"m"})").status, 400);
  EXPECT_EQ(change("shrink", R"({"model":"m"})").status, 405) << "for the daemon only";
}

TEST_F(CacheHandlers, WarmAnswersAtOnceUnlessItIsToWait) {
  inference.cache_answer.outcome = Outcome::accepted;
  const auto& accepted = change("warm", std::string(kPrompt) + "}");
  EXPECT_EQ(accepted.status, 202);
  EXPECT_EQ(accepted.body, R"({"ok":true,"model":"m","loaded":true})");
  inference.cache_answer.outcome = Outcome::not_loaded;
  EXPECT_EQ(change("warm", std::string(kPrompt) + "}").body, R"({"ok":true,"model":"m","loaded":false})");
  inference.cache_answer = {};
  inference.cache_answer.reply.tokens = 12;
  const auto& done = change("warm", std::string(kPrompt) + R"(,"wait":true})");
  EXPECT_EQ(done.status, 200);
  EXPECT_EQ(done.body, R"({"ok":true,"model":"m","prompt_tokens":12,"cached_tokens":0})");
}

TEST_F(CacheHandlers, OfAllModelsAreShownAndForgotten) {
  EXPECT_EQ(send(get("/api/cache/stats", "client")).body, R"({"providers":[]})");
  EXPECT_EQ(change("evict", R"({"sessionId":"s"})").body, R"({"ok":true,"sessionId":"s"})");
  EXPECT_EQ(change("evict", R"({"sessionId":"s","app":"editor"})").status, 200);
  EXPECT_EQ(change("clear", R"({"provider":"llama-cpp"})").body, R"({"ok":true,"provider":"llama-cpp"})");
  EXPECT_THAT(inference.forgotten, testing::ElementsAre("default:s", "editor:s", "llama-cpp"));
  EXPECT_EQ(change("evict", "{}").status, 400);
  EXPECT_EQ(change("evict", R"({"sessionId":""})").status, 400);
  EXPECT_EQ(change("evict", R"({"sessionId":"  "})").status, 400);
  EXPECT_EQ(change("clear", "{}").status, 400);
}

TEST_F(CacheHandlers, WhatIsNotForgottenIsNoSuccess) {
  inference.cache_refusal = api::not_found("engine_busy", "not now", "");
  EXPECT_EQ(change("evict", R"({"sessionId":"s"})").status, 404);
  EXPECT_EQ(change("clear", R"({"provider":"llama-cpp"})").status, 404);
}

TEST_F(CacheHandlers, ErrorsAreFlat) {
  inference.cache_refusal = api::not_found("model_not_loaded", "not loaded", "model");
  EXPECT_EQ(send(get("/api/cache?model=m", "client")).body,
            R"({"error":"model_not_loaded","message":"not loaded","param":"model"})");
  EXPECT_EQ(change("explain", std::string(kPrompt) + "}").status, 404);
}

// --- what an answer says of its prompt

class PrefixBreaks : public RouterTest {
 protected:
  static engine::PrefixBreak numbers() { return {.matched = 812, .previous = 1400, .at_message = 0}; }
  static engine::PrefixBreak with_text() {
    auto found = numbers();
    found.before = "Today is ";
    found.now = "Tuesday";
    found.then = "Monday";
    return found;
  }
  void answer(bool known_at_start) {
    engine::Started started;
    if (known_at_start) started.prefix_break = numbers();
    auto end = done();
    end.prefix_break = with_text();
    for (engine::Event event : {engine::Event(started), engine::Event(text("hi")), engine::Event(end)})
      inference.script->push(std::move(event));
  }
  static api::Request debugged(api::Request request) {
    request.headers.emplace_back("x-gezel-debug", "1");
    return request;
  }
};

TEST_F(PrefixBreaks, AreAHeaderWhereTheyAreKnownWithTheStatus) {
  answer(true);
  const auto& streamed = send(chat(R"(,"stream":true)"));
  EXPECT_EQ(streamed.header("x-gezel-prefix-break"), "matched=812, previous=1400, at_message=0");
  EXPECT_THAT(streamed.body, Not(HasSubstr("prefix_break"))) << "nobody asked for text";
  answer(false);
  EXPECT_EQ(send(chat(R"(,"stream":true)")).header("x-gezel-prefix-break"), "");
  answer(false);
  EXPECT_EQ(send(chat()).header("x-gezel-prefix-break"), "matched=812, previous=1400, at_message=0");
}

TEST_F(PrefixBreaks, WhatAnEarlierPromptSaidIsForTheOwnerAlone) {
  answer(true);
  auto request = debugged(chat());
  std::erase_if(request.headers, [](const auto& header) { return header.first == "authorization"; });
  request.headers.emplace_back("authorization", "Bearer client");
  EXPECT_THAT(send(std::move(request)).body, HasSubstr(R"("then":"Monday")"));
}

TEST_F(PrefixBreaks, HaveTextOnlyForWhoeverDebugs) {
  constexpr std::string_view kNote =
      R"("x_gezel":{"prefix_break":{"matched":812,"previous":1400,"at_message":0,)"
      R"("snippets":{"before":"Today is ","now":"Tuesday","then":""}}})";
  answer(true);
  EXPECT_THAT(send(debugged(chat())).body, HasSubstr(kNote));
  EXPECT_TRUE(inference.last->generate.prefix_snippets);
  answer(true);
  const auto& streamed = send(debugged(chat(R"(,"stream":true)")));
  EXPECT_THAT(streamed.pieces.back(), HasSubstr(kNote)) << "in the last event";
}

TEST_F(PrefixBreaks, TheHintsOfARequestReachTheEngine) {
  answer(false);
  auto request = chat();
  request.headers.insert(
      request.headers.end(),
      {{"x-gezel-session", "fork"}, {"x-gezel-parent", "main"}, {"x-gezel-ephemeral", "1"}});
  EXPECT_EQ(send(std::move(request)).status, 200);
  EXPECT_EQ(inference.last->generate.session_key, "default:fork");
  EXPECT_EQ(inference.last->generate.parent_session, "default:main");
  EXPECT_TRUE(inference.last->generate.ephemeral);
  EXPECT_FALSE(inference.last->generate.prefix_snippets);
  request = chat();
  request.headers.emplace_back("x-gezel-ephemeral", "maybe");
  const auto& refused = send(std::move(request));
  EXPECT_EQ(refused.status, 400);
  EXPECT_THAT(refused.body, HasSubstr("x-gezel-ephemeral"));
}

TEST_F(PrefixBreaks, CachedTokensAreToldByTheirOrigin) {
  auto end = done();
  end.usage.cached_from = {.slot = 1, .host = 2, .disk = 0, .coalesced = 1};
  inference.script->push(engine::Started{});
  inference.script->push(end);
  EXPECT_THAT(send(chat()).body, HasSubstr(R"("prompt_tokens_details":{"cached_tokens":4,"cached_from":)"
                                           R"({"slot":1,"host":2,"disk":0,"coalesced":1}})"));
}

}  // namespace
}  // namespace gezel::http::test
