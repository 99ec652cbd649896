#include <gtest/gtest.h>

#include "engine/engine.h"
#include "engine/engine_key.h"

namespace gezel::engine {
namespace {

TEST(EngineErrors, CarryStatusAndRetryOfTheirRow) {
  const auto crashed = make_error("engine-crashed", "gone");
  EXPECT_EQ(crashed.http_hint, 502);
  EXPECT_EQ(crashed.retry, Retry::same_engine);
  const auto busy = make_error("engine-busy", "full");
  EXPECT_EQ(busy.http_hint, 503);
  EXPECT_EQ(busy.retry, Retry::after);
  EXPECT_GT(busy.retry_after_ms, 0);
  const auto overflow = make_error("context-overflow", "long", "messages");
  EXPECT_EQ(overflow.http_hint, 400);
  EXPECT_EQ(overflow.error.kind, ErrorKind::invalid);
  EXPECT_EQ(overflow.error.param, "messages");
}

TEST(EngineErrors, ALockDownThatFailsAndAFileThatCannotBeReadAreUnavailable) {
  const auto sandbox = make_error("engine-sandbox", "the worker could not be locked down");
  EXPECT_EQ(sandbox.error.code, "engine-sandbox");
  EXPECT_EQ(sandbox.http_hint, 503);
  EXPECT_EQ(sandbox.retry, Retry::never);
  const auto unreadable = make_error("model-unreadable", "too many open files");
  EXPECT_EQ(unreadable.error.code, "model-unreadable");
  EXPECT_EQ(unreadable.http_hint, 503);
  EXPECT_EQ(unreadable.retry, Retry::after);
}

TEST(EngineErrors, AnUnknownCodeIsInternalAndStaysReadable) {
  const auto error = make_error("engine-on-fire", "hot");
  EXPECT_EQ(error.error.code, "engine-internal");
  EXPECT_EQ(error.http_hint, 500);
  EXPECT_NE(error.error.message.find("engine-on-fire"), std::string::npos);
}

TEST(EngineKeys, Case24_AreParsedOrRejectedNeverRepaired) {
  struct Case {
    std::string_view text;
    std::string_view model;  // "" = rejected
    unsigned replica = 0;
  };
  const Case cases[] = {{"mlx:qwen3-4b:0", "qwen3-4b"},
                        {"mlx:a:b:0", "a:b"},
                        {"llama-cpp:m:12", "m", 12},
                        {"llama-cpp:m:01", ""},
                        {"llama-cpp:m:-1", ""},
                        {"llama-cpp:m:+1", ""},
                        {"foo:m:0", ""},
                        {"llama-cpp::0", ""},
                        {"llama-cpp:m", ""},
                        {"llama-cpp:m:", ""},
                        {"", ""},
                        {"llama-cpp:m:99999999999", ""}};
  for (const auto& c : cases) {
    const auto key = parse_engine_key(c.text);
    ASSERT_EQ(key.has_value(), !c.model.empty()) << c.text;
    if (!key) continue;
    EXPECT_EQ(key->model, c.model);
    EXPECT_EQ(key->replica, c.replica);
    EXPECT_EQ(to_string(*key), c.text);
  }
}

}  // namespace
}  // namespace gezel::engine
