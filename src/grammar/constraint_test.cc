#include "grammar/constraint.h"

#include <gmock/gmock.h>

#include "grammar/lark_text.h"
#include "grammar/test_support.h"

namespace gezel::grammar {
namespace {

using testing::accepts;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::must;

Matcher prepared(ConstraintKind kind, std::string text, bool leading_space = false) {
  const auto ready = must(prepare({kind, std::move(text), leading_space}));
  return must(compile(ready.spec, Vocabulary::of_bytes()));
}

Error refused(ConstraintKind kind, std::string text) {
  const auto ready = prepare({kind, std::move(text), false});
  EXPECT_FALSE(ready);
  return ready ? Error{} : ready.error();
}

TEST(Constraint, KindsHaveNames) {
  for (const auto kind : {ConstraintKind::json_object, ConstraintKind::json_schema, ConstraintKind::regex,
                          ConstraintKind::lark, ConstraintKind::gbnf, ConstraintKind::tools}) {
    EXPECT_EQ(constraint_kind(constraint_kind_name(kind)), kind);
  }
  EXPECT_EQ(constraint_kind("yaml"), std::nullopt);
}

TEST(Constraint, JsonObjectIsAnyObject) {
  const auto matcher = prepared(ConstraintKind::json_object, "");
  EXPECT_TRUE(accepts(matcher, R"({"a": [1, {"b": null}]})"));
  EXPECT_FALSE(accepts(matcher, "[1]"));
}

TEST(Constraint, SchemaIsEnforced) {
  const auto matcher = prepared(ConstraintKind::json_schema, R"({"type":"integer","minimum":3})");
  EXPECT_TRUE(accepts(matcher, "3"));
  EXPECT_FALSE(accepts(matcher, "2"));
}

TEST(Constraint, LeadingSpaceIsOptional) {
  for (const auto& [kind, text] :
       {std::pair(ConstraintKind::json_schema, R"({"type":"integer"})"),
        std::pair(ConstraintKind::regex, "[0-9]+"), std::pair(ConstraintKind::lark, "start: /[0-9]+/\n"),
        std::pair(ConstraintKind::gbnf, "root ::= [0-9]+")}) {
    const auto strict = prepared(kind, text);
    EXPECT_TRUE(accepts(strict, "12"));
    EXPECT_FALSE(accepts(strict, "\n12"));
    const auto matcher = prepared(kind, text, true);
    EXPECT_TRUE(accepts(matcher, "12"));
    EXPECT_TRUE(accepts(matcher, "\n\n 12"));
    EXPECT_FALSE(accepts(matcher, std::string(9, '\n') + "12"));
    EXPECT_FALSE(accepts(matcher, "\n"));
  }
}

TEST(Constraint, RegexIsForTheWholeAnswer) {
  const auto matcher = prepared(ConstraintKind::regex, "[a-z]+/\\d{2}\n?");
  EXPECT_TRUE(accepts(matcher, "ab/12"));
  EXPECT_TRUE(accepts(matcher, "ab/12\n"));
  EXPECT_FALSE(accepts(matcher, "ab/1"));
  EXPECT_FALSE(accepts(matcher, "xab/123"));
}

TEST(Constraint, LarkIsUsedAsItIs) {
  const auto matcher =
      prepared(ConstraintKind::lark, "start: word (\" \" word)*\nword: /[a-z]+/ // a comment <x>\n");
  EXPECT_TRUE(accepts(matcher, "ab cd"));
  EXPECT_FALSE(accepts(matcher, "ab  cd"));
}

TEST(Constraint, GbnfIsTranslated) {
  const auto matcher = prepared(ConstraintKind::gbnf, "root ::= \"a\" [bc]*");
  EXPECT_TRUE(accepts(matcher, "abcb"));
  EXPECT_FALSE(accepts(matcher, "bc"));
}

TEST(Constraint, ErrorsOfSchemasNameThePlace) {
  const auto error = refused(ConstraintKind::json_schema,
                             R"({"properties":{"a":{"contains":{}, "type":"array","uniqueItems":true}}})");
  EXPECT_EQ(error.code, "schema-unsupported");
  EXPECT_EQ(error.param, "/properties/a/uniqueItems");
  EXPECT_EQ(error.kind, ErrorKind::invalid);
  EXPECT_EQ(refused(ConstraintKind::json_schema, "{").code, "invalid_json");
}

TEST(Constraint, ErrorsOfGrammarsSayWhereAndWhat) {
  for (const auto kind : {ConstraintKind::regex, ConstraintKind::lark, ConstraintKind::gbnf}) {
    const auto error = refused(kind, "(");
    EXPECT_EQ(error.code, "grammar-invalid");
    EXPECT_THAT(error.message, HasSubstr(constraint_kind_name(kind)));
    EXPECT_EQ(error.kind, ErrorKind::invalid);
  }
  EXPECT_THAT(refused(ConstraintKind::gbnf, "root ::= \"a").message, HasSubstr("line 1, column"));
}

TEST(Constraint, GrammarsThatRefertoTokensAreRefused) {
  for (const auto* lark :
       {"start: <|im_end|>\n", "start: \"a\" <[5]>\n", "start: <[*]>\n", "start: \"<\" /</ <[^1]>\n"}) {
    EXPECT_THAT(refused(ConstraintKind::lark, lark).message, HasSubstr("references to tokens")) << lark;
  }
  EXPECT_THAT(refused(ConstraintKind::gbnf, "root ::= <think>").message, HasSubstr("references to tokens"));
  EXPECT_TRUE(refuse_tokens_in_lark("start: \"<a>\" /<b>\\/</ // <c>\n# <d>\n"));
}

TEST(Constraint, TextsAreBounded) {
  ConstraintLimits limits;
  limits.text_bytes = 10;
  const auto failed = prepare({ConstraintKind::regex, "[a-z]+[a-z]+", false}, SchemaMode::strict, limits);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().kind, ErrorKind::too_large);
}

TEST(Constraint, WhatNothingSatisfiesIsRefused) {
  EXPECT_EQ(refused(ConstraintKind::json_schema, R"({"type":"string","minLength":3,"maxLength":2})").code,
            "constraint-unusable");
  EXPECT_EQ(refused(ConstraintKind::gbnf, "root ::= \"a\" root").code, "grammar-invalid");
}

TEST(Constraint, WarningsComeWithThePrepared) {
  const auto ready =
      must(prepare({ConstraintKind::json_schema, R"({"type":"string","format":"color"})", false}));
  EXPECT_THAT(ready.warnings, ::testing::ElementsAre(HasSubstr("#/format")));
  const auto lenient = must(prepare(
      {ConstraintKind::json_schema, R"({"type":"array","uniqueItems":true})", false}, SchemaMode::lenient));
  EXPECT_THAT(lenient.warnings, ::testing::ElementsAre(HasSubstr("#/uniqueItems")));
}

// ---- what is large, deep or long ends with a constraint or an error, and not with the process

std::string many_properties(int count, int required) {
  json::object properties;
  json::array names;
  for (int i = 0; i < count; ++i) {
    const auto name = "p" + std::to_string(i);
    properties[name] = json::object{{"type", "integer"}};
    if (i < required) names.emplace_back(name);
  }
  return json::serialize(json::object{
      {"type", "object"}, {"properties", properties}, {"required", names}, {"additionalProperties", false}});
}

TEST(ConstraintExtremes, ManyOptionalProperties) {
  auto matcher = prepared(ConstraintKind::json_schema, many_properties(1000, 0));
  EXPECT_TRUE(accepts(matcher, "{\"p0\": 1, \"p500\": 2, \"p999\": 3}"));
  EXPECT_FALSE(accepts(matcher, "{\"p500\": 1, \"p0\": 2}"));
  const auto error = refused(ConstraintKind::json_schema, many_properties(1001, 0));
  EXPECT_EQ(error.param, "/properties");
  EXPECT_THAT(error.message, HasSubstr("1000 optional properties"));
}

TEST(ConstraintExtremes, ManyRequiredProperties) {
  EXPECT_TRUE(prepare({ConstraintKind::json_schema, many_properties(5000, 4500), false}));
}

TEST(ConstraintExtremes, ManyListedValues) {
  json::array values;
  for (int i = 0; i < 20'000; ++i) values.emplace_back("value " + std::to_string(i));
  const auto ready =
      prepare({ConstraintKind::json_schema, json::serialize(json::object{{"enum", values}}), false});
  EXPECT_TRUE(ready) << ready.error().message;
}

TEST(ConstraintExtremes, LargeCounts) {
  for (const auto* schema :
       {R"({"type":"array","minItems":1000000})",
        R"({"type":"array","items":{"type":"integer"},"maxItems":1000000})",
        R"({"type":"string","maxLength":1000000})", R"({"type":"string","minLength":100000})",
        R"({"type":"string","pattern":"^(a{1000}b{1000}){1000}$"})",
        R"({"type":"object","minProperties":100000})"}) {
    const auto ready = prepare({ConstraintKind::json_schema, schema, false});
    if (!ready) EXPECT_EQ(ready.error().kind, ErrorKind::invalid) << schema << ": " << ready.error().message;
  }
}

TEST(ConstraintExtremes, UnionsOfUnions) {
  std::string schema = R"({"anyOf":[{"type":"integer"},{"type":"string"}]})";
  for (int i = 0; i < 14; ++i)
    schema = R"({"anyOf":[)" + schema + "," + schema + R"(],"minimum":)" + std::to_string(i) + "}";
  const auto ready = prepare({ConstraintKind::json_schema, schema, false});
  if (!ready)
    EXPECT_TRUE(ready.error().kind == ErrorKind::invalid || ready.error().kind == ErrorKind::too_large)
        << ready.error().message;
}

TEST(ConstraintExtremes, LongChainsOfRules) {
  std::string lark = "start: r0\n";
  std::string gbnf = "root ::= r0\n";
  for (int i = 0; lark.size() < 60'000; ++i) {
    lark += "r" + std::to_string(i) + ": r" + std::to_string(i + 1) + " | \"a\"\n";
    if (gbnf.size() < 60'000)
      gbnf += "r" + std::to_string(i) + " ::= r" + std::to_string(i + 1) + " | \"a\"\n";
  }
  const auto last = lark.substr(lark.rfind(": r") + 2, lark.rfind(" |") - lark.rfind(": r") - 2);
  lark += last + ": \"b\"\n";
  gbnf += gbnf.substr(gbnf.rfind("::= r") + 4, gbnf.rfind(" |") - gbnf.rfind("::= r") - 4) + " ::= \"b\"\n";
  for (const auto& spec : {ConstraintSpec{ConstraintKind::lark, lark, false},
                           ConstraintSpec{ConstraintKind::gbnf, gbnf, false}}) {
    const auto ready = prepare(spec);
    if (!ready) EXPECT_EQ(ready.error().code, "grammar-invalid") << ready.error().message;
  }
}

TEST(ConstraintExtremes, DeepGroupsInRegularExpressions) {
  const auto deep = std::string(5000, '(') + "a" + std::string(5000, ')');
  EXPECT_FALSE(prepare({ConstraintKind::regex, deep, false}));
  EXPECT_FALSE(prepare({ConstraintKind::json_schema, R"({"pattern":")" + deep + R"("})", false}));
  EXPECT_FALSE(prepare({ConstraintKind::gbnf, "root ::= " + deep, false}));
  EXPECT_FALSE(prepare({ConstraintKind::lark, "start: " + deep + "\n", false}));
}

TEST(LarkText, StringsAreEscaped) {
  const std::string text = "a\"b\\c\n\x01\x7f<é>";
  EXPECT_TRUE(accepts(testing::of_lark("start: " + lark_string(text) + "\n"), text));
}

TEST(LarkText, RegexesAreEscaped) {
  for (const auto& [regex, text] :
       {std::pair("a/b", "a/b"), std::pair("a\\/b", "a/b"), std::pair("\\\\/", "\\/"),
        std::pair("a\nb", "a\nb"), std::pair("", "")}) {
    EXPECT_TRUE(accepts(testing::of_lark("start: " + lark_regex(regex) + "\n"), text)) << regex;
  }
}

}  // namespace
}  // namespace gezel::grammar
