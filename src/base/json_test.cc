#include "base/json.h"

#include <gtest/gtest.h>

namespace gezel {
namespace {

TEST(Json, KeepsTheOrderOfKeys) {
  const auto value = parse_json(R"({"b":1,"a":{"z":2,"y":3}})");
  ASSERT_TRUE(value);
  EXPECT_EQ(to_json(*value), R"({"b":1,"a":{"z":2,"y":3}})");
}

TEST(Json, NamesTheByteOfASyntaxError) {
  const auto value = parse_json(R"({"model":x})");
  ASSERT_FALSE(value);
  EXPECT_EQ(value.error().code, "invalid_json");
  EXPECT_NE(value.error().message.find("at byte 9"), std::string::npos) << value.error().message;
}

TEST(Json, NamesTheByteWhereAnUnfinishedBodyEnds) {
  const auto value = parse_json(R"({"model":)");
  ASSERT_FALSE(value);
  EXPECT_NE(value.error().message.find("at byte 9"), std::string::npos) << value.error().message;
}

TEST(Json, RefusesTextAfterTheValue) {
  const auto value = parse_json("{} x");
  ASSERT_FALSE(value);
  EXPECT_NE(value.error().message.find("at byte 3"), std::string::npos) << value.error().message;
}

TEST(Json, NamesTheByteOfInvalidUtf8) {
  const auto value = parse_json("{\"a\":\"\xFF\"}");
  ASSERT_FALSE(value);
  EXPECT_EQ(value.error().code, "invalid_utf8");
  EXPECT_NE(value.error().message.find("at byte 6"), std::string::npos);
}

TEST(Json, BoundsTheDepth) {
  const std::string deep = std::string(65, '[') + std::string(65, ']');
  EXPECT_FALSE(parse_json(deep));
  const std::string allowed = std::string(60, '[') + std::string(60, ']');
  EXPECT_TRUE(parse_json(allowed));
}

TEST(Json, LenientReadersFallBack) {
  const json::object object = parse_json(R"({"n":3,"s":"x","b":true,"f":1.5})")->as_object();
  EXPECT_EQ(int_or(object, "n", 0), 3);
  EXPECT_EQ(int_or(object, "s", 7), 7);
  EXPECT_EQ(string_or(object, "n", "none"), "none");
  EXPECT_DOUBLE_EQ(number_or(object, "f", 0), 1.5);
  EXPECT_TRUE(bool_or(object, "b", false));
  EXPECT_EQ(object_at(object, "n"), nullptr);
}

}  // namespace
}  // namespace gezel
