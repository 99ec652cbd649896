#include "grammar/gbnf.h"

#include <gmock/gmock.h>

#include "grammar/gbnf_lexemes.h"
#include "grammar/test_support.h"

namespace gezel::grammar {
namespace {

using testing::accepts;
using ::testing::HasSubstr;
using testing::must;
using testing::of_lark;
using testing::table;

TEST(Gbnf, MeansWhatTheTableSays) {
  for (const auto& row : table("gbnf.jsonl")) {
    const auto text = string_or(row, "grammar");
    const auto lark = gbnf_to_lark(text);
    if (row.contains("error")) {
      ASSERT_FALSE(lark) << text;
      EXPECT_EQ(lark.error().code, "grammar-invalid");
      EXPECT_THAT(lark.error().message, HasSubstr(string_or(row, "error"))) << text;
      EXPECT_THAT(lark.error().message, HasSubstr("line ")) << text;
      continue;
    }
    ASSERT_TRUE(lark) << text << "\n" << lark.error().message;
    const auto matcher = of_lark(*lark);
    for (const auto& yes : row.at("yes").as_array())
      EXPECT_TRUE(accepts(matcher, yes.as_string())) << text << "\n" << *lark << yes.as_string();
    for (const auto& no : row.at("no").as_array())
      EXPECT_FALSE(accepts(matcher, no.as_string())) << text << "\n" << *lark << no.as_string();
  }
}

std::size_t lexemes_in(std::string_view text) {
  const auto lark = must(gbnf_to_lark(text));
  std::size_t count = 0;
  for (std::size_t at = lark.find("\nT"); at != std::string::npos; at = lark.find("\nT", at + 1)) ++count;
  return count;
}

TEST(Gbnf, RegularGrammarsAreOneLexeme) {
  EXPECT_EQ(lexemes_in("root ::= \"- \" [^\\n]+ \"\\n\""), 1U);
  EXPECT_EQ(lexemes_in("root ::= a b\na ::= \"x\" | \"y\"\nb ::= [0-9]{1,3}"), 1U);
}

TEST(Gbnf, LexemesThatCouldSwallowWhatFollowsAreBrokenUp) {
  // "ws" takes the line break that must follow it.
  EXPECT_GT(lexemes_in("root ::= (item \"\\n\")+ rest\nitem ::= \"a\" ws\nws ::= [ \\n]*\nrest ::= \"(\" "
                       "rest \")\" | \"x\""),
            2U);
}

TEST(Gbnf, BoundsAreObserved) {
  EXPECT_FALSE(gbnf_to_lark("root ::= ((((\"a\"))))", {.depth = 3}));
  EXPECT_TRUE(gbnf_to_lark("root ::= ((((\"a\"))))", {.depth = 4}));
  EXPECT_FALSE(gbnf_to_lark("root ::= \"abcdef\"", {.symbols = 5}));
}

TEST(Gbnf, ManyRulesInAChainAreNoProblem) {
  std::string text = "root ::= r0\n";
  for (int i = 0; i < 2000; ++i)
    text += "r" + std::to_string(i) + " ::= \"a\" r" + std::to_string(i + 1) + "?\n";
  text += "r2000 ::= \"b\"\n";
  const auto matcher = of_lark(must(gbnf_to_lark(text)));
  EXPECT_TRUE(accepts(matcher, "aaa"));
  EXPECT_FALSE(accepts(matcher, "ab"));
}

}  // namespace
}  // namespace gezel::grammar
