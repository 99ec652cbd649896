#include "turn/required.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "turn/test_table.h"

namespace gezel::turn {
namespace {

using ::testing::HasSubstr;

Source source_of(std::string_view name) {
  if (name == "native") return {};
  const Source::Form form = name.starts_with("strong")   ? Source::Form::strong
                            : name.starts_with("family") ? Source::Form::family
                                                         : Source::Form::weak;
  return {form, std::stoi(std::string(name.substr(name.find(':') + 2)))};
}

std::vector<ToolSchema> acceptance_tools() {
  std::vector<ToolSchema> tools;
  for_each_row("tools.jsonl",
               [&](const json::object& row) { tools.push_back(read_tool_schema(to_json(row)).value()); });
  return tools;
}

GrammarRequest grammar_of(const json::object& row) {
  GrammarRequest grammar;
  grammar.guarantees_required = bool_or(row, "guaranteed", false);
  for (const auto& spelling : *array_at(row, "spellings")) {
    grammar.spellings.push_back(source_of(spelling.as_string()));
  }
  return grammar;
}

Call call_of(const json::object& row) {
  Call call;
  call.name = string_or(row, "name");
  call.arguments = *object_at(row, "arguments");
  call.provenance.source = source_of(string_or(row, "source"));
  call.provenance.constrained = bool_or(row, "constrained", false);
  return call;
}

TEST(Required, EveryCaseOfTheTableHolds) {
  const auto tools = acceptance_tools();
  for_each_row("required.jsonl", [&](const json::object& row) {
    std::vector<Call> calls;
    for (const auto& call : *array_at(row, "calls")) calls.push_back(call_of(call.as_object()));
    collapse_duplicates(calls);
    const auto check = check_required(bool_or(row, "latched", false), calls, tools, grammar_of(row));
    EXPECT_EQ(check.sequential, bool_or(row, "after", false));
    json::array rejected;
    for (const RejectedCall& one : check.rejected) {
      EXPECT_TRUE(one.text.starts_with("ERROR: ")) << one.text;
      for (const std::string& field : one.missing) EXPECT_THAT(one.text, HasSubstr("`" + field + "`"));
      rejected.push_back({{"call", one.call},
                          {"missing", json::value_from(one.missing)},
                          {"feedback", one.feedback == MissingFeedback::decoder ? "A" : "B"}});
    }
    EXPECT_EQ(canonical_json(rejected), canonical_json(row.at("rejected")));
  });
}

TEST(Required, FeedbackAnamesTheDecoderAndFeedbackBTheFields) {
  const auto tools = acceptance_tools();
  Call call;
  call.name = "write_file";
  call.provenance = {.source = {Source::Form::strong, 2}, .constrained = true};
  const GrammarRequest grammar{.guarantees_required = true, .spellings = {{Source::Form::strong, 2}}};
  const std::vector<Call> calls = {call};
  EXPECT_EQ(
      check_required(false, calls, tools, grammar).rejected[0].text,
      "ERROR: write_file was not called: the required fields `path` and `content` are missing. The decoder "
      "left them out, not you. Decoding is sequential now. Call write_file once more with all fields.");
  EXPECT_EQ(check_required(true, calls, tools, grammar).rejected[0].text,
            "ERROR: write_file was not called: the required fields `path` and `content` are missing. Call "
            "write_file again with all declared fields: `path` and `content`.");
}

TEST(Required, FlattenedMembersAreAskedForAsJson) {
  const std::vector<ToolSchema> tools = {make_tool_schema(
      "find",
      parse_json(R"({"properties":{"filters":{"type":"object","properties":{"year":{"type":"integer"}}}},
                             "required":["filters"]})")
          ->as_object())};
  Call call;
  call.name = "find";
  call.arguments = {{"year", 1999}};
  const std::vector<Call> calls = {call};
  const auto check = check_required(false, calls, tools, {});
  ASSERT_EQ(check.rejected.size(), 1u);
  EXPECT_TRUE(check.rejected[0].flattened);
  EXPECT_THAT(check.rejected[0].text, HasSubstr("The values were right"));
  EXPECT_THAT(check.rejected[0].text, HasSubstr("one JSON object"));
}

TEST(Required, B21AServersValidatorCanSetTheLatch) {
  Call call;
  call.provenance = {.source = {Source::Form::strong, 2}, .constrained = true};
  const GrammarRequest grammar{.guarantees_required = true, .spellings = {{Source::Form::strong, 2}}};
  EXPECT_TRUE(latch_after_validator(false, call, grammar));
  EXPECT_TRUE(latch_after_validator(true, call, {}));
  EXPECT_FALSE(latch_after_validator(false, call, {}));
  call.provenance.source = {Source::Form::weak, 4};
  EXPECT_FALSE(latch_after_validator(false, call, grammar));
}

}  // namespace
}  // namespace gezel::turn
