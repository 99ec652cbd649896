#include "prompt/compact_tools.h"

#include <gtest/gtest.h>

namespace gezel::prompt {
namespace {

std::string compacted(std::string json) {
  Tool tool{"get_weather", std::move(json)};
  compact(tool);
  return tool.json;
}

TEST(CompactTools, B14ProseGoesAndStructureStays) {
  EXPECT_EQ(
      compacted(
          R"({"type":"function","function":{"name":"get_weather","description":"Get weather. Long text.",)"
          R"("parameters":{"type":"object","title":"T","properties":{"city":{"type":"string","description":"a city"},)"
          R"("units":{"enum":["c","f"],"default":"c","examples":["c"]}},"required":["city"]}}})"),
      R"({"type":"function","function":{"name":"get_weather","description":"Get weather.",)"
      R"("parameters":{"type":"object","properties":{"city":{"type":"string"},"units":{"enum":["c","f"]}},)"
      R"("required":["city"]}}})");
}

TEST(CompactTools, PropertiesWithSuchNamesAndDataStay) {
  const std::string tool =
      R"({"type":"function","function":{"name":"get_weather","parameters":{"properties":{"title":{"type":"string"},)"
      R"("x":{"const":{"description":"data"}}}}}})";
  EXPECT_EQ(compacted(tool), tool);
}

TEST(CompactTools, SchemasInsideSchemasAreReached) {
  EXPECT_EQ(
      compacted(
          R"({"function":{"parameters":{"$defs":{"a":{"title":"A","items":[{"title":"B"}]}},)"
          R"("anyOf":[{"description":"d","not":{"$comment":"c"}}],"additionalProperties":{"title":"t"}}}})"),
      R"({"function":{"parameters":{"$defs":{"a":{"items":[{}]}},"anyOf":[{"not":{}}],"additionalProperties":{}}}})");
}

TEST(CompactTools, WhatIsNoToolStays) {
  for (const char* text : {"", "[]", "{broken", R"({"function":1})"}) EXPECT_EQ(compacted(text), text);
}

TEST(FirstSentence, EndsAtAMarkOrALineEnd) {
  EXPECT_EQ(first_sentence("Version 1.2 is it! More."), "Version 1.2 is it!");
  EXPECT_EQ(first_sentence("  One line\nanother"), "One line");
  EXPECT_EQ(first_sentence("no end"), "no end");
  EXPECT_EQ(first_sentence(""), "");
}

TEST(FirstSentence, HasAtMost96Characters) {
  std::string long_text;
  for (int i = 0; i < 96; ++i) long_text += "é";
  EXPECT_EQ(first_sentence(long_text), long_text);
  EXPECT_EQ(first_sentence(long_text + "é"), long_text.substr(0, 190) + "…");
}

}  // namespace
}  // namespace gezel::prompt
