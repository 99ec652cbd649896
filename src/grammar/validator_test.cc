#include "grammar/validator.h"

#include <gmock/gmock.h>

#include "grammar/formats.h"
#include "grammar/json_compare.h"
#include "grammar/schema_settle.h"
#include "grammar/test_support.h"

namespace gezel::grammar {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::must;
using testing::random_text;
using testing::table;

Verdict check(std::string_view schema, std::string_view value) {
  return Validator(must(parse_json(schema))).check(must(parse_json(value)));
}

// Rows: schema, valid values, invalid values with the keyword's and the value's place.
TEST(Validator, JudgesAsTheTableSays) {
  for (const auto& row : table("validator.jsonl")) {
    const auto text = json::serialize(row);
    Validator validator(row.at("schema"));
    for (const auto& value : row.at("valid").as_array()) {
      const auto verdict = validator.check(value);
      EXPECT_TRUE(verdict.valid) << verdict.message << "\n" << json::serialize(value) << "\n" << text;
      EXPECT_THAT(verdict.unjudged, IsEmpty()) << text;
    }
    for (const auto& bad : row.at("invalid").as_array()) {
      const auto verdict = validator.check(bad.at("value"));
      EXPECT_FALSE(verdict.valid) << json::serialize(bad) << "\n" << text;
      EXPECT_EQ(verdict.keyword, string_or(bad.as_object(), "keyword")) << text;
      EXPECT_EQ(verdict.instance, string_or(bad.as_object(), "at")) << text;
    }
  }
}

TEST(Validator, SaysWhatItExpected) {
  const auto verdict = check(R"({"properties":{"a":{"type":"integer"}}})", R"({"a":"x"})");
  EXPECT_FALSE(verdict.valid);
  EXPECT_EQ(verdict.message, R"(the value at #/a (string) violates 'type': "integer" is wanted)");
}

TEST(Validator, WhatCannotBeJudgedIsSatisfiedAndSaid) {
  for (const auto* schema :
       {R"({"pattern":"^\\p{Lu}"})", R"({"pattern":"(?=a)b"})", R"({"$ref":"http://example.com/x"})",
        R"({"$dynamicRef":"#x"})", R"({"$ref":"#/nowhere"})"}) {
    const auto verdict = check(schema, R"("x")");
    EXPECT_TRUE(verdict.valid) << schema;
    EXPECT_EQ(verdict.unjudged.size(), 1U) << schema;
  }
}

TEST(Validator, WhatCannotBeJudgedStaysUncertainInsideOtherKeywords) {
  EXPECT_TRUE(check(R"({"not":{"pattern":"^\\p{Lu}"}})", R"("x")").valid);
  EXPECT_TRUE(check(R"({"oneOf":[{"type":"string"},{"pattern":"^\\p{Lu}"}]})", R"("x")").valid);
  EXPECT_TRUE(check(R"({"anyOf":[{"type":"integer"},{"pattern":"^\\p{Lu}"}]})", R"("x")").valid);
  EXPECT_FALSE(check(R"({"anyOf":[{"type":"integer"},{"type":"null"}]})", R"("x")").valid);
  EXPECT_TRUE(check(R"({"if":{"pattern":"^\\p{Lu}"},"then":false})", R"("x")").valid);
  EXPECT_TRUE(
      check(R"({"patternProperties":{"\\p{Lu}":false},"additionalProperties":false})", R"({"x":1})").valid);
}

TEST(Validator, EndlessReferencesEnd) {
  EXPECT_FALSE(check(R"({"$ref":"#"})", "1").unjudged.empty());
  EXPECT_FALSE(check(R"({"anyOf":[{"$ref":"#"},{"$ref":"#"}]})", "1").unjudged.empty());
}

TEST(Validator, WorkIsBounded) {
  json::array many;
  for (int i = 0; i < 10'000; ++i) many.emplace_back(i);
  Validator validator(json::object{{"uniqueItems", true}});
  EXPECT_FALSE(validator.check(many).unjudged.empty());
}

TEST(Validator, CanBeUsedAgain) {
  Validator validator(must(parse_json(R"({"type":"integer"})")));
  EXPECT_FALSE(validator.check("x").valid);
  const auto verdict = validator.check(1);
  EXPECT_TRUE(verdict.valid);
  EXPECT_EQ(verdict.message, "");
}

TEST(Validator, NumbersAreEqualByValue) {
  EXPECT_TRUE(json_equal(1, 1.0));
  EXPECT_TRUE(json_equal(json::object{{"a", 1}, {"b", 2}}, json::object{{"b", 2.0}, {"a", 1.0}}));
  EXPECT_FALSE(json_equal(1, true));
  EXPECT_FALSE(json_equal(9007199254740993, 9007199254740992));
}

TEST(Validator, MultiplesAreFoundByDecimalDigits) {
  EXPECT_EQ(is_multiple(0.07, 0.01), true);
  EXPECT_EQ(is_multiple(0.075, 0.01), false);
  EXPECT_EQ(is_multiple(-9, 3), true);
  EXPECT_EQ(is_multiple(1.0, 0.5), true);
  EXPECT_EQ(is_multiple(1e15, 0.01), true);
  EXPECT_EQ(is_multiple(78382434338394, 0.01), true);
  EXPECT_EQ(is_multiple(1, 1e300), false);
  EXPECT_EQ(is_multiple(0, 1e300), true);
  EXPECT_EQ(is_multiple(1e300, 3), std::nullopt);
}

// Whatever a constraint lets through, the validator finds right: the two were written apart.
TEST(Validator, FindsEveryRandomTextOfEveryConstraintRight) {
  std::mt19937 random(11);
  std::size_t checked = 0;
  for (const auto& row : table("schemas.jsonl")) {
    auto walked = walk_schema(row.at("schema"), SchemaMode::strict);
    if (!walked || !settle_schema(*walked, SchemaMode::strict)) continue;
    const auto matcher =
        must(Matcher::compile(Vocabulary::of_bytes(), Notation::json_schema, schema_text(*walked)));
    Validator validator(row.at("schema"));
    for (int round = 0; round < 10; ++round) {
      const auto text = random_text(matcher, random);
      if (!text) continue;
      const auto value = parse_json(*text);
      if (!value && value.error().message.find("overflow") != std::string::npos)
        continue;  // 1e999 is JSON all the same
      ASSERT_TRUE(value) << *text;
      const auto verdict = validator.check(*value);
      EXPECT_TRUE(verdict.valid) << verdict.message << "\n" << *text << "\n" << json::serialize(row);
      ++checked;
    }
  }
  EXPECT_GT(checked, 500U);
}

TEST(Formats, AcceptAtLeastWhatTheConstraintsWrite) {
  std::mt19937 random(13);
  for (const auto* format :
       {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid", "uri"}) {
    ASSERT_TRUE(is_enforced_format(format));
    const auto matcher = testing::of_value(json::object{{"type", "string"}, {"format", format}});
    for (int round = 0; round < 100; ++round) {
      const auto text = random_text(matcher, random, 120);
      if (!text) continue;
      const auto value = must(parse_json(*text));
      EXPECT_EQ(has_format(format, value.as_string()), true) << format << " " << *text;
    }
  }
}

// These the library does not know; a pattern stands for each.
TEST(Formats, ThoseWrittenAsPatternsAreEnforced) {
  const struct {
    const char *format, *right, *wrong;
  } rows[] = {{"uri-reference", "\"../a/b?x=1#top\"", "\"Water Level\""},
              {"uri-reference", "\"https://a.example/%20\"", "\"1:2\""},
              {"uri-template", "\"/users/{id}/x\"", "\"/users/{id\""},
              {"json-pointer", "\"/a~1b/0\"", "\"a/b\""},
              {"relative-json-pointer", "\"1/a\"", "\"01/a\""}};
  for (const auto& row : rows) {
    const auto matcher = testing::of_value(json::object{{"type", "string"}, {"format", row.format}});
    EXPECT_TRUE(testing::accepts(matcher, row.right)) << row.format << " " << row.right;
    EXPECT_FALSE(testing::accepts(matcher, row.wrong)) << row.format << " " << row.wrong;
  }
}

TEST(Formats, KnowRightFromWrong) {
  for (const auto& row : table("formats.jsonl")) {
    const auto format = string_or(row, "format");
    for (const auto& text : row.at("yes").as_array())
      EXPECT_EQ(has_format(format, text.as_string()), true) << format << " " << text.as_string();
    for (const auto& text : row.at("no").as_array())
      EXPECT_EQ(has_format(format, text.as_string()), false) << format << " " << text.as_string();
  }
  EXPECT_EQ(has_format("color", "red"), std::nullopt);
}

}  // namespace
}  // namespace gezel::grammar
