#include "turn/coerce.h"

#include <gtest/gtest.h>

#include <random>

#include "turn/calls.h"
#include "turn/test_table.h"

namespace gezel::turn {
namespace {

std::vector<ToolSchema> acceptance_tools() {
  std::vector<ToolSchema> tools;
  for_each_row("tools.jsonl", [&](const json::object& row) {
    auto tool = read_tool_schema(to_json(row));
    ASSERT_TRUE(tool);
    tools.push_back(*std::move(tool));
  });
  return tools;
}

ToolSchema tool_of(const json::object& row) {
  if (const auto* schema = object_at(row, "schema")) return make_tool_schema("t", *schema);
  for (auto& tool : acceptance_tools()) {
    if (tool.name == string_or(row, "tool")) return std::move(tool);
  }
  ADD_FAILURE() << "no such tool";
  return {};
}

TEST(Coerce, EveryCaseOfTheTableHolds) {
  for_each_row("coerce.jsonl", [](const json::object& row) {
    const ToolSchema tool = tool_of(row);
    json::object arguments = *object_at(row, "in");
    const auto repairs = coerce_arguments(arguments, tool);
    EXPECT_EQ(compact_json(arguments), compact_json(row.at("out")));
    json::array changed;
    for (const Repair& repair : repairs) changed.emplace_back(repair.field);
    EXPECT_EQ(compact_json(changed), compact_json(row.at("changed")));
  });
}

TEST(Coerce, TwiceIsOnce) {
  for_each_row("coerce.jsonl", [](const json::object& row) {
    const ToolSchema tool = tool_of(row);
    json::object arguments = *object_at(row, "in");
    coerce_arguments(arguments, tool);
    const std::string once = compact_json(arguments);
    EXPECT_TRUE(coerce_arguments(arguments, tool).empty());
    EXPECT_EQ(compact_json(arguments), once);
  });
}

json::value random_schema(std::mt19937& random, int depth) {
  static constexpr std::string_view kTypes[] = {"null",   "boolean", "integer", "number",
                                                "string", "array",   "object"};
  json::object schema;
  if (random() % 4 != 0) schema["type"] = kTypes[random() % std::size(kTypes)];
  if (random() % 8 == 0) schema["enum"] = json::array{1, "a", nullptr};
  if (depth == 0) return schema;
  if (random() % 3 == 0) {
    json::object properties;
    for (const std::string_view key : {"a", "b", "A"}) {
      if (random() % 2 == 0) properties[key] = random_schema(random, depth - 1);
    }
    schema["properties"] = std::move(properties);
  }
  if (random() % 3 == 0) schema["items"] = random_schema(random, depth - 1);
  if (random() % 6 == 0) {
    schema["anyOf"] = json::array{random_schema(random, depth - 1), random_schema(random, depth - 1)};
  }
  if (random() % 6 == 0) schema["$ref"] = random() % 2 == 0 ? "#" : "#/properties/a";
  return schema;
}

json::value random_argument(std::mt19937& random, int depth) {
  static constexpr std::string_view kTexts[] = {
      "5", "3.0", "x", "true", "null", "{\"a\":\"1\"}", "[\"2\",\"{}\"]", "\"7\"", "", "[[\"1\"]]"};
  if (depth == 0 || random() % 2 == 0) return json::string(kTexts[random() % std::size(kTexts)]);
  if (random() % 2 == 0)
    return json::array{random_argument(random, depth - 1), random_argument(random, depth - 1)};
  json::object object;
  for (const std::string_view key : {"a", "B", "A"}) {
    if (random() % 2 == 0) object[key] = random_argument(random, depth - 1);
  }
  return object;
}

TEST(Coerce, TwiceIsOnceForRandomSchemas) {
  std::mt19937 random(1);
  for (int round = 0; round < 20'000; ++round) {
    const json::value schema = random_schema(random, 3);
    const ToolSchema tool = make_tool_schema("t", schema.as_object());
    json::object arguments;
    for (const std::string_view key : {"a", "B", "c"}) arguments[key] = random_argument(random, 3);
    coerce_arguments(arguments, tool);
    const std::string once = compact_json(arguments);
    ASSERT_TRUE(coerce_arguments(arguments, tool).empty()) << compact_json(schema) << " " << once;
    ASSERT_EQ(compact_json(arguments), once);
  }
}

TEST(Coerce, ARepairTellsWhatItDid) {
  const ToolSchema tool =
      make_tool_schema("t", parse_json(R"({"properties":{"max_count":{"type":"integer"}}})")->as_object());
  json::object arguments{{"Max-Count", "7"}};
  const auto repairs = coerce_arguments(arguments, tool);
  ASSERT_EQ(repairs.size(), 2u);
  EXPECT_EQ(repairs[0].kind, Repair::Kind::renamed);
  EXPECT_EQ(repairs[0].from, "Max-Count");
  EXPECT_EQ(repairs[0].to, "max_count");
  EXPECT_EQ(repairs[1].kind, Repair::Kind::converted);
  EXPECT_EQ(repairs[1].field, "/max_count");
  EXPECT_EQ(repairs[1].from, "7");
  EXPECT_EQ(repairs[1].to, 7);
}

TEST(Coerce, AParsedContainerIsOneRepair) {
  const ToolSchema tool = make_tool_schema(
      "t", parse_json(R"({"properties":{"x":{"type":"array","items":{"type":"integer"}}}})")->as_object());
  json::object arguments{{"x", "[\"1\",\"2\"]"}};
  const auto repairs = coerce_arguments(arguments, tool);
  ASSERT_EQ(repairs.size(), 1u);
  EXPECT_EQ(compact_json(repairs[0].to), "[1,2]");
}

TEST(Coerce, ASchemaWithManyBranchesThatLeadToEachOtherEnds) {
  // 40 branches, each leading to all 40: followed blindly, 40^8 positions.
  json::array all;
  for (int i = 0; i < 40; ++i) all.push_back(json::object{{"$ref", "#/$defs/" + std::to_string(i)}});
  json::object definitions;
  for (int i = 0; i < 40; ++i) definitions[std::to_string(i)] = json::object{{"anyOf", all}};
  const ToolSchema tool =
      make_tool_schema("t", {{"properties", {{"x", {{"anyOf", all}}}}}, {"$defs", definitions}});
  json::object arguments{{"x", "5"}};
  EXPECT_TRUE(coerce_arguments(arguments, tool).empty());
}

TEST(MarkupValue, EveryCaseOfTheTableHolds) {
  for_each_row("markup_values.jsonl", [](const json::object& row) {
    const json::object root{{"properties", {{"x", row.at("schema")}}}};
    const ToolSchema tool = make_tool_schema("t", root);
    const auto kind =
        string_or(row, "kind") == "verbatim" ? MarkupValue::verbatim : MarkupValue::trimmed_line;
    EXPECT_EQ(compact_json(markup_value(string_or(row, "in"), kind, tool.position("x"))),
              compact_json(row.at("out")));
  });
}

TEST(ToolSchema, PropertiesComeInTheirOrderWithTheirTypes) {
  const auto tool = read_tool_schema(
      R"({"type":"function","function":{"name":"t","parameters":{"type":"object","properties":{)"
      R"("b":{"type":["string","null"]},"a":{"type":"number"},"c":{}},"required":["c","z"]}}})");
  ASSERT_TRUE(tool);
  ASSERT_EQ(tool->properties.size(), 3u);
  EXPECT_EQ(tool->properties[0].name, "b");
  EXPECT_EQ(tool->properties[0].types, kStringType | kNullType);
  EXPECT_EQ(tool->properties[1].types, kNumberType | kIntegerType);
  EXPECT_EQ(tool->properties[2].types, kAnyType);
  EXPECT_TRUE(tool->properties[2].required);
  EXPECT_EQ(tool->required, (std::vector<std::string>{"c", "z"}));
  EXPECT_EQ(tool->property("d"), nullptr);
  EXPECT_EQ(tool->types("d"), kAnyType);
}

TEST(ToolSchema, AToolWithoutParametersDeclaresNothing) {
  for (const std::string_view text : {R"({"name":"t"})", R"({"name":"t","parameters":null})"}) {
    const auto tool = read_tool_schema(text);
    ASSERT_TRUE(tool) << text;
    EXPECT_TRUE(tool->properties.empty());
  }
}

TEST(ToolSchema, AToolNeedsAName) {
  for (const std::string_view text : {"{}", "[]", R"({"name":""})", R"({"function":{"name":7}})"}) {
    const auto tool = read_tool_schema(text);
    ASSERT_FALSE(tool) << text;
    EXPECT_EQ(tool.error().code, "invalid_tool_schema");
    EXPECT_EQ(tool.error().param, "function.name");
  }
}

}  // namespace
}  // namespace gezel::turn
