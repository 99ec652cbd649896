#include "turn/usage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/utf8.h"
#include "turn/test_table.h"

namespace gezel::turn {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::optional<std::int64_t> number_or_nothing(const json::object& row, std::string_view key) {
  if (!row.contains(key)) return std::nullopt;
  return int_or(row, key, 0);
}

TEST(ResultCap, EveryCaseOfTheTableHolds) {
  for_each_row("result_caps.jsonl", [](const json::object& row) {
    const auto cap = result_cap(int_or(row, "context", 0), int_or(row, "prompt_chars", 0));
    EXPECT_EQ(cap.usable_tokens, int_or(row, "usable", -1));
    EXPECT_EQ(cap.transcript_tokens, int_or(row, "transcript", -1));
    EXPECT_EQ(cap.remaining_tokens, int_or(row, "remaining", -1));
    EXPECT_EQ(cap.cap_chars, int_or(row, "cap", -1));
    EXPECT_EQ(failed_command_tail(cap.cap_chars), int_or(row, "tail", -1));
  });
}

TEST(Estimate, EveryCaseOfTheTableHolds) {
  for_each_row("estimates.jsonl", [](const json::object& row) {
    const auto chars = int_or(row, "messages", 0) + int_or(row, "tools", 0) + int_or(row, "chars", 0);
    const PromptSize size{chars, static_cast<int>(int_or(row, "images", 0))};
    EXPECT_EQ(estimate_tokens(size), int_or(row, "tokens", -1));
  });
}

TEST(OutputLimit, EveryCaseOfTheTableHolds) {
  for_each_row("output_limits.jsonl", [](const json::object& row) {
    OutputLimitRequest request;
    request.max_completion_tokens = number_or_nothing(row, "max_completion_tokens");
    request.max_tokens = number_or_nothing(row, "max_tokens");
    request.profile_tokens = number_or_nothing(row, "profile");
    request.floor_tokens = int_or(row, "floor", 0);
    request.context_tokens = int_or(row, "context", 0);
    request.prompt_tokens = int_or(row, "prompt", 0);
    const auto limit = output_limit(request);
    if (row.contains("error")) {
      ASSERT_FALSE(limit);
      EXPECT_EQ(limit.error().code, string_or(row, "error"));
      EXPECT_THAT(limit.error().message, HasSubstr(std::to_string(request.prompt_tokens)));
      EXPECT_THAT(limit.error().message, HasSubstr(std::to_string(request.context_tokens)));
    } else {
      ASSERT_TRUE(limit) << limit.error().message;
      EXPECT_EQ(*limit, int_or(row, "limit", -1));
    }
  });
}

std::optional<FinishReason> reason_named(std::string_view name) {
  for (const auto reason :
       {FinishReason::stop, FinishReason::length, FinishReason::tool_calls, FinishReason::content_filter}) {
    if (to_string(reason) == name) return reason;
  }
  return std::nullopt;
}

TEST(FinishReason, EveryCaseOfTheTableHolds) {
  for_each_row("finish_reasons.jsonl", [](const json::object& row) {
    FinishFacts facts;
    facts.calls = bool_or(row, "calls", false);
    facts.call_cut_short = bool_or(row, "cut", false);
    facts.engine = reason_named(string_or(row, "engine"));
    facts.output_tokens = int_or(row, "output", 0);
    facts.output_limit = int_or(row, "limit", 0);
    facts.content_filter = bool_or(row, "content_filter", false);
    EXPECT_EQ(to_string(finish_reason(facts)), string_or(row, "finish"));
  });
}

TEST(CountChars, CountsScalarValues) {
  EXPECT_EQ(count_chars(""), 0);
  EXPECT_EQ(count_chars("aé€🫐"), 4);
}

TEST(CapResult, AShortResultStays) {
  EXPECT_EQ(cap_result(std::string(500, 'x'), 500), std::string(500, 'x'));
}

TEST(CapResult, ALongResultIsCutAndSaysSo) {
  std::string text;
  for (int i = 0; i < 20000; ++i) text += "🫐";
  for (const std::int64_t cap : {500, 8000}) {
    const std::string cut = cap_result(text, cap);
    EXPECT_LE(count_chars(cut), cap);
    EXPECT_GT(count_chars(cut), cap - 10);
    EXPECT_FALSE(find_invalid_utf8(cut));
    EXPECT_THAT(cut, HasSubstr("20000 characters"));
    EXPECT_THAT(cut, HasSubstr("narrower query"));
    EXPECT_EQ(cut.contains("or a range"), cap < 8000);
  }
}

TEST(CapResult, AFailedCommandKeepsHeadAndTail) {
  const std::string text =
      "✗ make failed (exit 2)\n" + std::string(20000, 'x') + "the cause" + std::string(3000, 'y');
  const std::string cut = cap_result(text, 7369);
  EXPECT_LE(count_chars(cut), 7369);
  EXPECT_THAT(cut, StartsWith("✗ make failed (exit 2)\nxxx"));
  EXPECT_THAT(cut, HasSubstr("the cause" + std::string(3000, 'y') + "\n[cut:"));
}

TEST(CapResult, ATinyCapIsKept) {
  EXPECT_EQ(cap_result(std::string(100, 'x'), 10), std::string(10, 'x'));
  EXPECT_EQ(cap_result("abc", 0), "");
}

TEST(FailedCommand, IsMarkedInTheFirst200Characters) {
  EXPECT_TRUE(failed_command("✗ run_tests failed (timed out after 5 s)"));
  EXPECT_TRUE(failed_command("output:\n✗ x\n✗ npm failed (exit 1)"));
  EXPECT_FALSE(failed_command(std::string(200, ' ') + "✗ npm failed (exit 1)"));
  EXPECT_FALSE(failed_command("✗ npm failed (cancelled)"));
  EXPECT_FALSE(failed_command("npm failed (exit 1)"));
  EXPECT_FALSE(failed_command("✗ npm\n failed (exit 1)"));
}

TEST(Usage, B51PromptIsOfTheLastIterationAndOutputOfAll) {
  Usage turn;
  turn.add({.prompt_tokens = 100, .completion_tokens = 20, .cached_tokens = 5, .iterations = 1});
  turn.add({.prompt_tokens = 180, .completion_tokens = 30, .reasoning_tokens = 4, .iterations = 1});
  turn.add({.prompt_tokens = 260,
            .completion_tokens = 40,
            .cached_tokens = 180,
            .iterations = 1,
            .estimated = true});
  EXPECT_EQ(turn.prompt_tokens, 260);
  EXPECT_EQ(turn.completion_tokens, 90);
  EXPECT_EQ(turn.total_tokens(), 350);
  EXPECT_EQ(turn.cached_tokens, 180);
  EXPECT_EQ(turn.reasoning_tokens, 4);
  EXPECT_EQ(turn.iterations, 3);
  EXPECT_TRUE(turn.estimated);
}

}  // namespace
}  // namespace gezel::turn
