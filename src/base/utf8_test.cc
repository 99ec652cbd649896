#include "base/utf8.h"

#include <gtest/gtest.h>

#include <random>

namespace gezel {
namespace {

TEST(Utf8, NamesTheFirstInvalidByte) {
  EXPECT_EQ(find_invalid_utf8("plain"), std::nullopt);
  EXPECT_EQ(find_invalid_utf8("h\xC3\xA9llo \xF0\x9F\x98\x80"), std::nullopt);
  EXPECT_EQ(find_invalid_utf8("ab\xFF"), 2u);
  EXPECT_EQ(find_invalid_utf8("long enough text \xC3"), 17u);
}

TEST(Utf8, RefusesOverlongFormsAndSurrogates) {
  EXPECT_EQ(find_invalid_utf8("\xC0\xAF"), 0u);
  EXPECT_EQ(find_invalid_utf8("\xE0\x80\x80"), 0u);
  EXPECT_EQ(find_invalid_utf8("\xED\xA0\x80"), 0u);
  EXPECT_EQ(find_invalid_utf8("\xF4\x90\x80\x80"), 0u);
}

TEST(Utf8, ReplacesEachMaximalIllFormedPartOnce) {
  EXPECT_EQ(sanitize_utf8("a\xE2\x82z"), "a\xEF\xBF\xBDz");
  EXPECT_EQ(sanitize_utf8("\xFF\xFE"), "\xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_EQ(sanitize_utf8("end\xF0\x9F"), "end\xEF\xBF\xBD");
}

TEST(Utf8Assembler, HoldsBackAnIncompleteCharacter) {
  Utf8Assembler assembler;
  EXPECT_EQ(assembler.feed("caf\xC3"), "caf");
  EXPECT_EQ(assembler.held(), 1u);
  EXPECT_EQ(assembler.feed("\xA9!"), "\xC3\xA9!");
  EXPECT_EQ(assembler.finish(), "");
}

TEST(Utf8Assembler, GivesTheSameTextForEverySplit) {
  std::mt19937 random(7);
  for (int round = 0; round < 500; ++round) {
    std::string text;
    for (int i = 0; i < 40; ++i) {
      const char* parts[] = {"a",    "\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x98\x80",
                             "\x80", "\xE2",     "\xF0\x9F",     "\xFF"};
      text += parts[random() % 8];
    }
    Utf8Assembler assembler;
    std::string joined;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t length = 1 + random() % 5;
      joined += assembler.feed(std::string_view(text).substr(at, length));
      at += length;
    }
    joined += assembler.finish();
    ASSERT_EQ(joined, sanitize_utf8(text));
    ASSERT_EQ(find_invalid_utf8(joined), std::nullopt);
  }
}

}  // namespace
}  // namespace gezel
