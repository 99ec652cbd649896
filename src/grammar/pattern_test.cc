#include "grammar/pattern.h"

#include <gmock/gmock.h>

#include "grammar/test_support.h"

namespace gezel::grammar {
namespace {

using testing::accepts;
using ::testing::HasSubstr;
using testing::must;
using testing::of_value;
using testing::random_text;
using testing::table;

std::vector<std::string> texts(const json::object& row, std::string_view key) {
  std::vector<std::string> all;
  if (const auto* list = array_at(row, key)) {
    for (const auto& text : *list) all.emplace_back(text.as_string());
  }
  return all;
}

TEST(Pattern, MatchesAsTheTableSays) {
  for (const auto& row : table("patterns.jsonl")) {
    if (row.contains("error")) continue;
    const auto pattern = string_or(row, "pattern");
    const auto matcher = must(PatternMatcher::create(must(parse_pattern(pattern))));
    for (const auto& text : texts(row, "yes"))
      EXPECT_TRUE(must(matcher.found_in(text))) << pattern << " in " << text;
    for (const auto& text : texts(row, "no"))
      EXPECT_FALSE(must(matcher.found_in(text))) << pattern << " in " << text;
  }
}

TEST(Pattern, ConstrainsAsTheTableSays) {
  for (const auto& row : table("patterns.jsonl")) {
    if (row.contains("error")) continue;
    const auto pattern = string_or(row, "pattern");
    const auto written = pattern_for_constraint(must(parse_pattern(pattern)));
    if (row.contains("constraint")) {
      ASSERT_FALSE(written) << pattern;
      EXPECT_EQ(written.error().code, "pattern-unsupported");
      EXPECT_THAT(written.error().message, HasSubstr(string_or(row, "constraint")));
      continue;
    }
    ASSERT_TRUE(written) << pattern << ": " << written.error().message;
    const auto matcher = of_value(json::object{{"type", "string"}, {"pattern", pattern}});
    for (const auto& text : texts(row, "yes"))
      EXPECT_TRUE(accepts(matcher, json::serialize(json::string(text)))) << *written << " " << text;
    for (const auto& text : texts(row, "no"))
      EXPECT_FALSE(accepts(matcher, json::serialize(json::string(text)))) << *written << " " << text;
  }
}

TEST(Pattern, RandomTextsOfAConstraintMatch) {
  std::mt19937 random(3);
  for (const auto& row : table("patterns.jsonl")) {
    if (row.contains("error") || row.contains("constraint")) continue;
    const auto pattern = string_or(row, "pattern");
    const auto matcher = must(PatternMatcher::create(must(parse_pattern(pattern))));
    const auto constraint = of_value(json::object{{"type", "string"}, {"pattern", pattern}});
    for (int round = 0; round < 3; ++round) {
      const auto text = random_text(constraint, random);
      if (!text) continue;
      const auto value = must(parse_json(*text));
      EXPECT_TRUE(must(matcher.found_in(value.as_string()))) << pattern << " in " << *text;
    }
  }
}

TEST(Pattern, RefusesWithTheReasonAndThePlace) {
  for (const auto& row : table("patterns.jsonl")) {
    if (!row.contains("error")) continue;
    const auto pattern = string_or(row, "pattern");
    const auto parsed = parse_pattern(pattern);
    ASSERT_FALSE(parsed) << pattern;
    EXPECT_THAT(parsed.error().message, HasSubstr(string_or(row, "error"))) << pattern;
    EXPECT_THAT(parsed.error().message, HasSubstr("at byte ")) << pattern;
  }
}

TEST(Pattern, UnicodePropertiesConstrainButAreNotMatchedByUs) {
  const auto tree = must(parse_pattern("^\\p{Lu}\\P{L}$"));
  EXPECT_EQ(PatternMatcher::create(tree).error().code, "pattern-unsupported");
  const auto matcher = of_value(json::object{{"type", "string"}, {"pattern", "^\\p{Lu}[\\p{Nd}_]$"}});
  EXPECT_TRUE(accepts(matcher, "\"É3\""));
  EXPECT_TRUE(accepts(matcher, "\"A_\""));
  EXPECT_FALSE(accepts(matcher, "\"é3\""));
}

TEST(Pattern, TimeIsProportionalToTextAndPattern) {
  const auto matcher = must(PatternMatcher::create(must(parse_pattern("^(a?){50}a{50}$|(x+x+)+y"))));
  EXPECT_TRUE(must(matcher.found_in(std::string(50, 'a'))));
  EXPECT_FALSE(must(matcher.found_in(std::string(100'000, 'x'))));
}

TEST(Pattern, CostIsBounded) {
  EXPECT_EQ(PatternMatcher::create(must(parse_pattern("((a{100}){100}){100}"))).error().code,
            "pattern-unsupported");
  const auto matcher = must(PatternMatcher::create(must(parse_pattern("(a?){5000}b"))));
  EXPECT_EQ(matcher.found_in(std::string(100'000, 'a')).error().code, "pattern-too-costly");
  EXPECT_EQ(parse_pattern(std::string(20'000, 'a')).error().code, "pattern-invalid");
  EXPECT_EQ(parse_pattern(std::string(200, '(') + std::string(200, ')')).error().code, "pattern-invalid");
}

TEST(CharSet, KeepsRangesSortedAndApart) {
  CharSet set({{'m', 'p'}, {'a', 'c'}, {'d', 'e'}, {'n', 'z'}});
  EXPECT_THAT(set.ranges(), ::testing::ElementsAre(CharSet::Range{'a', 'e'}, CharSet::Range{'m', 'z'}));
  EXPECT_TRUE(set.contains('e'));
  EXPECT_FALSE(set.contains('f'));
  EXPECT_EQ(set.complement().complement(), set);
  EXPECT_FALSE(set.overlaps(set.complement()));
  EXPECT_TRUE(set.minus(set).empty());
}

TEST(CharSet, HasNoSurrogates) {
  const auto all = CharSet::all();
  EXPECT_EQ(all.ranges().size(), 2U);
  EXPECT_FALSE(all.contains(0xD800));
  EXPECT_FALSE(all.complement().contains(0xDFFF));
}

TEST(CharSet, ReadsAndWritesUtf8) {
  for (const char32_t c : {U'\0', U'a', U'\x7f', U'é', U'€', U'\uffff', U'🦙', U'\U0010ffff'}) {
    const auto text = to_utf8(c);
    std::string_view rest = text;
    EXPECT_EQ(take_scalar(rest), c);
    EXPECT_TRUE(rest.empty());
  }
  std::string_view broken = "\xc3(";
  EXPECT_EQ(take_scalar(broken), 0xFFFDU);
  EXPECT_EQ(take_scalar(broken), U'(');
}

}  // namespace
}  // namespace gezel::grammar
