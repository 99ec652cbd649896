#include "base/json_text.h"

#include <gtest/gtest.h>

#include "base/json.h"

namespace gezel {
namespace {

std::string json_string(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

TEST(JsonText, EscapesOnlyWhatJsonRequires) {
  EXPECT_EQ(json_string(""), R"("")");
  EXPECT_EQ(json_string("h\xC3\xA9 / \x7F"), "\"h\xC3\xA9 / \x7F\"");
  EXPECT_EQ(json_string("\"\\\n\r\t\b\f"), R"("\"\\\n\r\t\b\f")");
  EXPECT_EQ(json_string(std::string_view("\0\x01\x1F", 3)), R"("\u0000\u0001\u001f")");
}

TEST(JsonText, EveryByteReadsBackAsItself) {
  for (int byte = 0; byte < 0x80; ++byte) {
    const std::string text = "a" + std::string(1, static_cast<char>(byte)) + "b";
    const auto read = parse_json(json_string(text));
    ASSERT_TRUE(read) << byte;
    EXPECT_EQ(read->as_string(), text) << byte;
  }
}

}  // namespace
}  // namespace gezel
