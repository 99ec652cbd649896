#include "grammar/schema_walk.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <set>

#include "grammar/schema_settle.h"
#include "grammar/test_support.h"

namespace gezel::grammar {
namespace {

using testing::accepts;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::must;
using testing::random_text;
using testing::table;

Matcher compiled(const WalkedSchema& walked) {
  return must(Matcher::compile(Vocabulary::of_bytes(), Notation::json_schema, schema_text(walked)));
}

class SchemaTable : public ::testing::TestWithParam<json::object> {
 protected:
  const json::object& row = GetParam();
  const json::value& schema = row.at("schema");
  std::vector<std::string> texts(std::string_view key) const {
    std::vector<std::string> all;
    if (const auto* list = array_at(row, key)) {
      for (const auto& text : *list) all.emplace_back(text.as_string());
    }
    return all;
  }
};

INSTANTIATE_TEST_SUITE_P(Grammar, SchemaTable, ::testing::ValuesIn(table("schemas.jsonl")),
                         [](const auto& info) {
                           std::string name = string_or(info.param, "name");
                           std::ranges::replace_if(
                               name, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
                           return fmt::format("{}_{}", info.index, name);
                         });

TEST_P(SchemaTable, StrictModeConstrainsExactlyOrNamesTheKeywordAndItsPlace) {
  auto walked = walk_schema(schema, SchemaMode::strict);
  if (row.contains("error")) {
    ASSERT_FALSE(walked);
    EXPECT_THAT(walked.error().message, HasSubstr(string_or(row, "error")));
    EXPECT_EQ(walked.error().param, string_or(row, "at"));
    return;
  }
  ASSERT_TRUE(walked) << walked.error().message;
  const auto settled = settle_schema(*walked, SchemaMode::strict);
  if (row.contains("settle")) {
    ASSERT_FALSE(settled);
    EXPECT_THAT(settled.error().message, HasSubstr(string_or(row, "settle")));
    EXPECT_EQ(settled.error().param, string_or(row, "at"));
    return;
  }
  ASSERT_TRUE(settled) << settled.error().message << "\n" << schema_text(*walked);
  if (row.contains("warns")) {
    EXPECT_THAT(walked->warnings, ::testing::Contains(HasSubstr(string_or(row, "warns"))));
  } else {
    EXPECT_THAT(walked->warnings, IsEmpty());
  }
  const auto matcher = compiled(*walked);
  for (const auto& text : texts("yes"))
    EXPECT_TRUE(accepts(matcher, text)) << text << "\n" << schema_text(*walked);
  for (const auto& text : texts("no"))
    EXPECT_FALSE(accepts(matcher, text)) << text << "\n" << schema_text(*walked);
}

TEST_P(SchemaTable, LenientModeLeavesOutWhatCannotBeEnforcedAndSaysSo) {
  auto walked = walk_schema(schema, SchemaMode::lenient);
  if (row.contains("hard")) {
    EXPECT_FALSE(walked);
    return;
  }
  ASSERT_TRUE(walked) << walked.error().message;
  const auto settled = settle_schema(*walked, SchemaMode::lenient);
  ASSERT_TRUE(settled) << settled.error().message;
  if (row.contains("error") || row.contains("settle")) {
    const std::string where = "#" + string_or(row, "at");
    EXPECT_THAT(walked->warnings, ::testing::Contains(HasSubstr(where)));
  }
  const auto matcher = compiled(*walked);
  for (const auto& text : texts("yes")) EXPECT_TRUE(accepts(matcher, text)) << text;
}

TEST_P(SchemaTable, EveryRandomTextIsJson) {
  auto walked = walk_schema(schema, SchemaMode::lenient);
  if (!walked || !settle_schema(*walked, SchemaMode::lenient)) return;
  const auto matcher = compiled(*walked);
  std::mt19937 random(5);
  for (int round = 0; round < 5; ++round) {
    const auto text = random_text(matcher, random);
    if (text) EXPECT_TRUE(parse_json(*text)) << *text;
  }
}

std::string nested(int depth) {
  std::string text = "true";
  for (int i = 0; i < depth; ++i) text = R"({"items":)" + text + "}";
  return text;
}

json::value many_properties(int count) {
  json::object properties;
  for (int i = 0; i < count; ++i) properties[fmt::format("p{}", i)] = json::object{{"type", "integer"}};
  return json::object{{"type", "object"}, {"properties", std::move(properties)}};
}

TEST(SchemaWalk, SizeIsBounded) {
  const auto failed = walk_schema(many_properties(100), SchemaMode::lenient, {.bytes = 1000});
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().kind, ErrorKind::too_large);
  EXPECT_THAT(failed.error().message, HasSubstr("1000 are allowed"));
}

TEST(SchemaWalk, PartsAreCountedThroughReferences) {
  EXPECT_FALSE(walk_schema(many_properties(100), SchemaMode::lenient, {.nodes = 100}));
  EXPECT_TRUE(walk_schema(many_properties(98), SchemaMode::lenient, {.nodes = 100}));
}

// Within our own limits, and still more than the library compiles.
json::value many_schemas() {
  json::object properties;
  for (int i = 0; i < 1300; ++i) {
    json::object inner;
    for (int j = 0; j < 20; ++j) inner[fmt::format("p{}", j)] = {{"enum", json::array{i, j, i + j}}};
    properties[fmt::format("o{}", i)] = {
        {"type", "object"}, {"properties", inner}, {"additionalProperties", false}};
  }
  json::array required;
  for (const auto& property : properties) required.emplace_back(property.key());
  return {{"type", "object"}, {"properties", properties}, {"required", required}};
}

TEST(SchemaWalk, WhatTheLibraryFindsTooLargeIsRefusedAsAWholeWithTheLimit) {
  auto walked = walk_schema(many_schemas(), SchemaMode::strict);
  ASSERT_TRUE(walked) << walked.error().message;
  const auto settled = settle_schema(*walked, SchemaMode::strict);
  ASSERT_FALSE(settled);
  EXPECT_EQ(settled.error().param, "");
  EXPECT_THAT(settled.error().message, HasSubstr("more than 50000 schemas"));
  EXPECT_THAT(settled.error().message, HasSubstr("make it smaller"));
}

TEST(SchemaWalk, OfWhatTheLibraryFindsTooLargeTheTypeStaysInLenientMode) {
  auto walked = walk_schema(many_schemas(), SchemaMode::lenient);
  ASSERT_TRUE(walked);
  ASSERT_TRUE(settle_schema(*walked, SchemaMode::lenient));
  EXPECT_EQ(string_or(walked->root.as_object(), "type"), "object");
  EXPECT_FALSE(walked->root.as_object().contains("properties"));
  EXPECT_THAT(walked->warnings.back(), HasSubstr("50000"));
}

TEST(SchemaWalk, DepthIsBounded) {
  const auto schema = must(parse_json(nested(20)));
  EXPECT_TRUE(walk_schema(schema, SchemaMode::strict, {.depth = 20}));
  const auto failed = walk_schema(schema, SchemaMode::strict, {.depth = 19});
  ASSERT_FALSE(failed);
  EXPECT_THAT(failed.error().message, HasSubstr("deeper than 19"));
  const auto cut = walk_schema(schema, SchemaMode::lenient, {.depth = 19});
  ASSERT_TRUE(cut);
  EXPECT_EQ(cut->warnings.size(), 1U);
}

TEST(SchemaWalk, WarningsAreBoundedAndTheRestCounted) {
  json::object properties;
  for (int i = 0; i < 50; ++i) properties[fmt::format("p{}", i)] = json::object{{"format", "color"}};
  const auto walked =
      walk_schema(json::object{{"properties", properties}}, SchemaMode::strict, {.warnings = 10});
  ASSERT_TRUE(walked);
  EXPECT_EQ(walked->warnings.size(), 11U);
  EXPECT_EQ(walked->warnings.back(), "and 40 more");
}

TEST(SchemaWalk, LongChainsOfReferencesAreRefused) {
  json::object definitions;
  for (int i = 0; i < 1000; ++i) {
    definitions[fmt::format("d{}", i)] = json::object{
        {"type", "object"}, {"properties", {{"x", {{"$ref", fmt::format("#/$defs/d{}", i + 1)}}}}}};
  }
  definitions["d1000"] = true;
  const json::value schema = json::object{{"$ref", "#/$defs/d0"}, {"$defs", definitions}};
  const auto failed = walk_schema(schema, SchemaMode::lenient);
  ASSERT_FALSE(failed);
  EXPECT_THAT(failed.error().message, HasSubstr("levels deep"));
}

TEST(SchemaWalk, TheDeepestAllowedChainsCompile) {
  json::object definitions;
  for (int i = 0; i < 190; ++i) {
    definitions[fmt::format("d{}", i)] = json::object{
        {"type", "object"}, {"properties", {{"x", {{"$ref", fmt::format("#/$defs/d{}", i + 1)}}}}}};
  }
  definitions["d190"] = true;
  const json::value schema = json::object{{"$ref", "#/$defs/d0"}, {"$defs", definitions}};
  auto walked = walk_schema(schema, SchemaMode::strict);
  ASSERT_TRUE(walked) << walked.error().message;
  EXPECT_TRUE(settle_schema(*walked, SchemaMode::strict));
}

TEST(SchemaWalk, NormalFormHasOnlyWhatIsEnforced) {
  const auto walked =
      must(walk_schema(must(parse_json(R"({"title":"t","type":"object","x-guidance":{},"properties":{
      "a":{"type":"string","format":"color","description":"d"}},"$defs":{"unused":{"type":"text"}}})")),
                       SchemaMode::strict));
  const auto text = schema_text(walked);
  for (const auto* gone : {"title", "color", "description", "unused", "$at", "lenient"}) {
    EXPECT_THAT(text, ::testing::Not(HasSubstr(gone)));
  }
}

TEST(SchemaWalk, OrderOfPropertiesIsKept) {
  const auto matcher =
      testing::of_schema(R"({"type":"object","properties":{"z":{"type":"integer"},"a":{"type":"integer"}},
                                              "required":["a","z"],"additionalProperties":false})");
  EXPECT_TRUE(accepts(matcher, R"({"z": 1, "a": 2})"));
  EXPECT_FALSE(accepts(matcher, R"({"a": 1, "z": 2})"));
}

TEST(SchemaWalk, EveryKeywordIsListedOnce) {
  std::set<std::string_view> names;
  for (const auto& keyword : known_keywords()) EXPECT_TRUE(names.insert(keyword.name).second) << keyword.name;
  EXPECT_TRUE(names.contains("type"));
  EXPECT_FALSE(names.contains("x-guidance"));
}

}  // namespace
}  // namespace gezel::grammar
