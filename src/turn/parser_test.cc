#include "turn/parser.h"

#include <gtest/gtest.h>

#include <random>

#include "turn/parser_test_support.h"
#include "turn/test_table.h"

namespace gezel::turn {
namespace {

struct Case {
  std::string text;
  ParserOptions options;
  FinishReason reason = FinishReason::stop;
  bool stream_differs = false;  // the finished message may differ from what was streamed
};

Case read_case(const json::object& row) {
  Case c;
  c.text = string_or(row, "in");
  const std::string start = string_or(row, "start", "closed");
  c.options.start = start == "open"      ? StartState::open
                    : start == "unknown" ? StartState::unknown
                                         : StartState::closed;
  c.reason = string_or(row, "fin", "stop") == "length" ? FinishReason::length : FinishReason::stop;
  c.options.tool_open_ends_reasoning = bool_or(row, "toolEnds", true);
  c.options.split_reasoning = string_or(row, "profile") != "plain";
  c.options.family = family_named(string_or(row, "fam", "universal")).value();
  if (!row.contains("tools")) c.options.tools = case_tools();
  c.stream_differs = bool_or(row, "weak", false) || bool_or(row, "rescued", false) || start == "unknown" ||
                     bool_or(row, "final", false);
  return c;
}

std::vector<std::string> strings(const json::object& row, std::string_view key) {
  std::vector<std::string> list;
  if (const auto* array = array_at(row, key)) {
    for (const auto& item : *array) list.emplace_back(item.as_string());
  }
  return list;
}

void check_message(const json::object& row, const Message& message) {
  EXPECT_EQ(message.reasoning, string_or(row, "r"));
  EXPECT_EQ(message.content, string_or(row, "c"));
  const json::array none;
  const json::array* wanted = array_at(row, "calls");
  if (!wanted) wanted = &none;
  ASSERT_EQ(message.calls.size(), wanted->size());
  for (std::size_t i = 0; i < wanted->size(); ++i) {
    const json::array& call = (*wanted)[i].as_array();
    EXPECT_EQ(message.calls[i].name, std::string(call[0].as_string()));
    EXPECT_EQ(canonical_json(message.calls[i].arguments), canonical_json(call[1]));
    EXPECT_EQ(canonical_json(*parse_json(message.calls[i].arguments_text)), canonical_json(call[1]));
    if (call.size() > 2) EXPECT_EQ(message.calls[i].arguments_text, std::string(call[2].as_string()));
  }
  if (const auto* ids = array_at(row, "ids")) {
    for (std::size_t i = 0; i < ids->size(); ++i) {
      const auto* id = (*ids)[i].if_string();
      EXPECT_EQ(message.calls[i].engine_id, id ? std::string(*id) : std::string());
      EXPECT_TRUE(message.calls[i].id.starts_with("call_"));
    }
  }
  EXPECT_EQ(message.unknown, strings(row, "unknown"));
  EXPECT_EQ(message.truncated, strings(row, "truncated"));
  EXPECT_EQ(message.malformed, int_or(row, "malformed", 0));
  EXPECT_EQ(message.rescued, bool_or(row, "rescued", false));
  if (row.contains("source")) {
    ASSERT_FALSE(message.calls.empty());
    EXPECT_EQ(to_string(message.calls[0].provenance.source), string_or(row, "source"));
  }
}

// What the events say against the finished message.
void check_stream(const Parsed& parsed, bool may_differ) {
  const Message& message = parsed.message;
  const Seen& seen = parsed.seen;
  EXPECT_TRUE(seen.in_order);
  if (!may_differ) {
    EXPECT_EQ(seen.reasoning, message.reasoning);
    EXPECT_EQ(seen.content, message.content);
    EXPECT_FALSE(seen.replace);
  }
  if (seen.replace) {
    EXPECT_EQ(seen.replace->reasoning, message.reasoning);
    EXPECT_EQ(seen.replace->content, message.content);
  } else {
    EXPECT_EQ(seen.content, message.content);
  }
  std::size_t complete = 0;
  for (const auto& call : seen.calls) {
    EXPECT_EQ(call.ends, 1);
    if (call.outcome == CallOutcome::complete) ++complete;
  }
  ASSERT_EQ(complete, message.calls.size());
  ASSERT_EQ(seen.calls.size(), message.calls.size() + message.abandoned.size());
  for (std::size_t i = 0; i < message.calls.size(); ++i) {
    const auto& call = seen.calls[static_cast<std::size_t>(message.indexes[i])];
    EXPECT_EQ(call.id, message.calls[i].id);
    EXPECT_EQ(call.name, message.calls[i].name);
    EXPECT_EQ(call.arguments, message.calls[i].arguments_text);
  }
}

void check_split(const Case& c, const std::vector<std::string_view>& pieces, const std::string& whole,
                 const std::string& what) {
  SCOPED_TRACE(what);
  const Parsed parsed = parse_pieces(pieces, c.options, c.reason);
  ASSERT_EQ(describe(parsed.message), whole);
  check_stream(parsed, c.stream_differs);
}

std::vector<std::string_view> bytes_of(std::string_view text, std::size_t size = 1) {
  std::vector<std::string_view> pieces;
  for (std::size_t at = 0; at < text.size(); at += size) pieces.push_back(text.substr(at, size));
  return pieces;
}

void check_every_split(const Case& c) {
  const std::string_view text = c.text;
  const Parsed whole = parse_pieces({text}, c.options, c.reason);
  check_stream(whole, c.stream_differs);
  const std::string expected = describe(whole.message);
  for (std::size_t at = 0; at <= text.size(); ++at) {
    check_split(c, {text.substr(0, at), text.substr(at)}, expected, "cut at " + std::to_string(at));
    if (testing::Test::HasFailure()) return;
  }
  check_split(c, bytes_of(text), expected, "byte by byte");
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::string_view> pieces;
    for (std::size_t at = 0; at < text.size();) {
      pieces.push_back(text.substr(at, random() % 9));
      at += pieces.back().size();
    }
    check_split(c, pieces, expected, "partition " + std::to_string(round));
    if (testing::Test::HasFailure()) return;
  }
}

// parse.jsonl are the cases of the specification, parse_more.jsonl ours.
class ParseCases : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Parser, ParseCases, testing::Values("parse.jsonl", "parse_more.jsonl"),
                         [](const auto& table) { return table.index == 0 ? "Specified" : "More"; });

TEST_P(ParseCases, GiveTheirResult) {
  for_each_row(GetParam(), [](const json::object& row) {
    const Case c = read_case(row);
    check_message(row, parse_pieces({c.text}, c.options, c.reason).message);
  });
}

TEST_P(ParseCases, B05GiveTheSameHoweverTheyAreCut) {
  for_each_row(GetParam(), [](const json::object& row) { check_every_split(read_case(row)); });
}

std::optional<bool> flag(const json::object& row, std::string_view key) {
  if (!row.contains(key)) return std::nullopt;
  return bool_or(row, key, false);
}

TEST(StartStates, GiveTheSplitOfTheTable) {
  for_each_row("starts.jsonl", [](const json::object& row) {
    const std::string statement = string_or(row, "statement");
    StartFacts facts{.template_opens = flag(row, "opens"), .enable_thinking = flag(row, "enable_thinking")};
    if (row.contains("statement")) facts.statement = statement;
    ParserOptions options;
    options.start = start_state(facts);
    const Message message = parse_pieces({string_or(row, "in")}, options).message;
    EXPECT_EQ(message.reasoning, string_or(row, "r"));
    EXPECT_EQ(message.content, string_or(row, "c"));
  });
}

}  // namespace
}  // namespace gezel::turn
