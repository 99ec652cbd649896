// testdata/api/cache_requests.jsonl: bodies and what they ask for, or what is wrong with them.
#include "api/cache_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

namespace gezel::api {
namespace {

using Op = engine::CacheQuery::Op;

Op op_named(std::string_view word) {
  const auto found = std::ranges::find(engine::kCacheOps, word);
  EXPECT_NE(found, engine::kCacheOps.end()) << word;
  return static_cast<Op>(found - engine::kCacheOps.begin());
}

TEST(CacheRequests, MeanWhatTheTableSays) {
  std::ifstream table(GEZEL_TESTDATA "/api/cache_requests.jsonl");
  int cases = 0;
  for (std::string line; std::getline(table, line); ++cases) {
    const auto row = parse_json(line);
    ASSERT_TRUE(row) << line;
    const auto& object = row->get_object();
    const auto read = parse_cache_request(op_named(string_or(object, "op")), to_json(object.at("body")));
    if (const auto* wrong = array_at(object, "wrong")) {
      ASSERT_FALSE(read) << line;
      EXPECT_EQ(read.error().status, 400);
      for (const auto& part : *wrong)
        EXPECT_THAT(read.error().message, testing::HasSubstr(std::string(part.as_string())));
      continue;
    }
    ASSERT_TRUE(read) << line << read.error().message;
    EXPECT_EQ(read->model, string_or(object, "model", "m")) << line;
    EXPECT_EQ(read->app, string_or(object, "app", "default")) << line;
    EXPECT_EQ(static_cast<std::int64_t>(read->query.node), int_or(object, "node", 0)) << line;
    EXPECT_EQ(read->start, bool_or(object, "start", false)) << line;
    EXPECT_EQ(read->wait, bool_or(object, "wait", false)) << line;
    const auto* request = read->query.request ? &*read->query.request : nullptr;
    EXPECT_EQ(request == nullptr ? read->query.session : request->session_key, string_or(object, "session"))
        << line;
    EXPECT_EQ(request == nullptr ? 0 : static_cast<int>(request->messages.size()),
              int_or(object, "messages", 0))
        << line;
  }
  EXPECT_GE(cases, 20);
}

engine::CacheReply some_reply() {
  engine::CacheReply reply;
  reply.nodes = {{.id = 7,
                  .parent = 0,
                  .start = 0,
                  .end = 812,
                  .kind = "system",
                  .hits = 31,
                  .pins = 1,
                  .host_bytes = 4096,
                  .disk_bytes = 8192,
                  .slot = 2,
                  .last_use = WallTime(std::chrono::seconds(1'700'000'000))},
                 {.id = 8, .parent = 7, .start = 812, .end = 900, .kind = "tail"}};
  reply.tokens = 20;
  reply.cached_tokens = 12;
  reply.count = 5;
  reply.text = "You are terse.";
  return reply;
}

TEST(CacheReplies, AListHasEveryNode) {
  EXPECT_EQ(
      to_json(cache_list_json("llama-cpp:m", some_reply())),
      R"({"model":"llama-cpp:m","count":5,"nodes":[{"id":7,"parent":null,"start":0,"end":812,"class":"system",)"
      R"("hits":31,"pins":1,"bytes":{"host":4096,"disk":8192},"slot":2,"last_use":"2023-11-14T22:13:20.000Z"},)"
      R"({"id":8,"parent":7,"start":812,"end":900,"class":"tail","hits":0,"pins":0,)"
      R"("bytes":{"host":0,"disk":0},"slot":null,"last_use":"1970-01-01T00:00:00.000Z"}]})");
}

TEST(CacheReplies, ANodeHasItsText) {
  const auto node = cache_node_json("llama-cpp:m", some_reply());
  EXPECT_EQ(node.at("id"), 7);
  EXPECT_EQ(node.at("text"), "You are terse.");
}

TEST(CacheReplies, SayWhatWasDone) {
  auto reply = some_reply();
  EXPECT_EQ(to_json(cache_reply_json(Op::drop, "m", reply)), R"({"ok":true,"model":"m","nodes":5})");
  EXPECT_EQ(to_json(cache_reply_json(Op::flush, "m", reply)), R"({"ok":true,"model":"m","records":5})");
  EXPECT_EQ(to_json(cache_reply_json(Op::warm, "m", reply)),
            R"({"ok":true,"model":"m","prompt_tokens":20,"cached_tokens":12})");
  EXPECT_EQ(to_json(cache_reply_json(Op::explain, "m", reply)),
            R"({"ok":true,"model":"m","prompt_tokens":5,"reusable_tokens":20,"prefix_break":null})");
  reply.prefix_break = {
      .matched = 12, .previous = 40, .at_message = {}, .before = "a", .now = "b", .then = "c"};
  EXPECT_EQ(
      to_json(cache_reply_json(Op::explain, "m", reply)),
      R"({"ok":true,"model":"m","prompt_tokens":5,"reusable_tokens":20,"prefix_break":{"matched":12,"previous":40,)"
      R"("at_message":null,"snippets":{"before":"a","now":"b","then":"c"}}})");
}

}  // namespace
}  // namespace gezel::api
