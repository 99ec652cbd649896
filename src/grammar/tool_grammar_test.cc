#include "grammar/tool_grammar.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <set>

#include "grammar/constraint.h"
#include "grammar/test_support.h"

namespace gezel::grammar {
namespace {

using testing::accepts;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::must;
using testing::random_text;
using testing::table;

constexpr std::string_view kTools = R"([
  {"name":"get_weather","parameters":{"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer"},
    "units":{"type":"string","enum":["c","f"]}},"required":["city"]}},
  {"name":"add","parameters":{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}},"required":["a","b"]}},
  {"name":"search","parameters":{"type":"object","properties":{"query":{"type":"string"},"filters":{"type":"object",
    "properties":{"year":{"type":"integer"}}},"tags":{"type":"array","items":{"type":"string"}},"exact":{"type":"boolean"}},
    "required":["query"]}},
  {"name":"ping"}])";

ToolSet tool_set(std::string_view dialect, ToolMode mode = ToolMode::eager, std::string_view tools = kTools) {
  ToolSet set;
  std::vector<std::string> warnings;
  set.tools = must(walk_tools(must(parse_json(tools)).as_array(), warnings));
  set.dialect = dialect;
  set.mode = mode;
  return set;
}

Matcher matcher_of(const ToolSet& set) {
  return must(compile({ConstraintKind::tools, tool_set_text(set), false}, Vocabulary::of_bytes()));
}

class Dialects : public ::testing::TestWithParam<json::object> {};
INSTANTIATE_TEST_SUITE_P(Grammar, Dialects, ::testing::ValuesIn(table("tool_dialects.jsonl")),
                         [](const auto& info) {
                           std::string name = string_or(info.param, "dialect");
                           std::ranges::replace_if(
                               name, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
                           return name;
                         });

TEST_P(Dialects, CallsAreLetThroughAndNothingElse) {
  const auto set = tool_set(string_or(GetParam(), "dialect"));
  const auto matcher = matcher_of(set);
  for (const auto& text : GetParam().at("yes").as_array()) {
    EXPECT_TRUE(accepts(matcher, text.as_string())) << text.as_string() << "\n"
                                                    << must(tool_grammar(set, *Vocabulary::of_bytes())).lark;
  }
  for (const auto& text : GetParam().at("no").as_array())
    EXPECT_FALSE(accepts(matcher, text.as_string())) << text.as_string();
}

TEST_P(Dialects, ALazyGrammarBeginsWithEachOfItsTriggers) {
  const auto set = tool_set(string_or(GetParam(), "dialect"), ToolMode::lazy);
  const auto grammar = must(tool_grammar(set, *Vocabulary::of_bytes()));
  ASSERT_FALSE(grammar.triggers.empty());
  auto matcher = matcher_of(set);
  for (const auto& trigger : grammar.triggers) {
    std::vector<Token> tokens;
    for (const char c : trigger.text) tokens.push_back(static_cast<unsigned char>(c));
    EXPECT_EQ(matcher.allowed(tokens), tokens.size()) << trigger.text;
  }
}

TEST_P(Dialects, OneCallOnlyWhenCallsAreNotParallel) {
  auto set = tool_set(string_or(GetParam(), "dialect"), ToolMode::eager, R"([{"name":"ping"}])");
  set.parallel = false;
  const auto matcher = matcher_of(set);
  std::mt19937 random(1);
  for (int round = 0; round < 20; ++round) {
    const auto text = random_text(matcher, random);
    if (!text) continue;
    std::size_t calls = 0;
    for (std::size_t at = text->find("ping"); at != std::string::npos; at = text->find("ping", at + 1))
      ++calls;
    EXPECT_EQ(calls, 1U) << *text;
  }
}

TEST(ToolDialects, EveryRowIsTested) {
  std::set<std::string> tested;
  for (const auto& row : table("tool_dialects.jsonl")) tested.insert(string_or(row, "dialect"));
  for (const auto& dialect : tool_dialects())
    EXPECT_TRUE(tested.contains(std::string(dialect.name))) << dialect.name;
  EXPECT_EQ(tested.size(), tool_dialects().size());
}

TEST(ToolGrammar, UnknownDialectsAndNoToolsAreErrors) {
  auto set = tool_set("hermes");
  set.dialect = "klingon";
  EXPECT_EQ(tool_grammar(set, *Vocabulary::of_bytes()).error().code, "tool-dialect-unknown");
  set.dialect = "hermes";
  set.tools.clear();
  EXPECT_EQ(tool_grammar(set, *Vocabulary::of_bytes()).error().code, "invalid_tool_choice");
}

TEST(ToolGrammar, LazyIsOneEnvelope) {
  const auto matcher = matcher_of(tool_set("hermes", ToolMode::lazy));
  const std::string call = "<tool_call>\n{\"name\": \"ping\", \"arguments\": {}}\n</tool_call>";
  EXPECT_TRUE(accepts(matcher, call));
  EXPECT_FALSE(accepts(matcher, call + "\n" + call));
}

TEST(ToolGrammar, NamesThatBeginOtherNamesAreToldApart) {
  for (const auto* dialect : {"hermes", "qwen-xml", "glm", "mistral-args", "gemma"}) {
    auto set =
        tool_set(dialect, ToolMode::eager, R"([{"name":"list"},{"name":"list_projects"},{"name":"list.x"}])");
    const auto matcher = matcher_of(set);
    std::mt19937 random(2);
    std::set<std::string> seen;
    for (int round = 0; round < 60; ++round) {
      const auto text = random_text(matcher, random);
      if (!text) continue;
      for (const auto* name : {"list_projects", "list.x"}) {
        if (text->find(name) != std::string::npos) seen.insert(name);
      }
      if (text->find("list") != std::string::npos) seen.insert("list");
    }
    EXPECT_EQ(seen.size(), 3U) << dialect;
  }
}

TEST(ToolGrammar, AnswerIsCallsOrJson) {
  auto set = tool_set("hermes");
  set.answer = must(walk_schema(
      must(parse_json(
          R"({"type":"object","properties":{"x":{"type":"integer"}},"required":["x"],"additionalProperties":false})")),
      SchemaMode::strict));
  const auto matcher = matcher_of(set);
  EXPECT_TRUE(accepts(matcher, R"({"x": 1})"));
  EXPECT_TRUE(accepts(matcher, "<tool_call>\n{\"name\": \"ping\", \"arguments\": {}}\n</tool_call>"));
  EXPECT_FALSE(accepts(matcher, R"({"y": 1})"));
  EXPECT_FALSE(accepts(matcher, "hello"));
  EXPECT_THAT(must(tool_grammar(set, *Vocabulary::of_bytes())).triggers, IsEmpty());
}

TEST(ToolGrammar, AnswerIsToldFromBareCallsByTheSchema) {
  auto set = tool_set("llama-json");
  set.answer = must(walk_schema(
      must(parse_json(
          R"({"type":"object","properties":{"x":{"type":"integer"}},"required":["x"],"additionalProperties":false})")),
      SchemaMode::strict));
  const auto matcher = matcher_of(set);
  EXPECT_TRUE(accepts(matcher, R"({"x": 1})"));
  EXPECT_TRUE(accepts(matcher, R"({"name": "ping", "parameters": {}})"));
}

TEST(ToolGrammar, EnumsOfOtherTypesAndReferencesAreWritten) {
  const auto set =
      tool_set("qwen-xml", ToolMode::eager, R"([{"name":"f","parameters":{"type":"object","properties":{
      "n":{"enum":[1,2.5,null,"x y"]},"r":{"$ref":"#/$defs/E"},"u":{"anyOf":[{"const":"a"},{"const":"b"}]},
      "m":{"type":["string","null"]}},"$defs":{"E":{"type":"string","enum":["p","q"]}}}}])");
  const auto matcher = matcher_of(set);
  const auto call = [](std::string_view key, std::string_view value) {
    return fmt::format("<function=f>\n<parameter={}>\n{}\n</parameter>\n</function>", key, value);
  };
  for (const auto* value : {"1", "2.5", "null", "x y"})
    EXPECT_TRUE(accepts(matcher, call("n", value))) << value;
  EXPECT_FALSE(accepts(matcher, call("n", "3")));
  EXPECT_TRUE(accepts(matcher, call("r", "q")));
  EXPECT_FALSE(accepts(matcher, call("r", "z")));
  EXPECT_TRUE(accepts(matcher, call("u", "b")));
  EXPECT_FALSE(accepts(matcher, call("u", "c")));
  EXPECT_TRUE(accepts(matcher, call("m", "null")));
  EXPECT_TRUE(accepts(matcher, call("m", "any text")));
}

TEST(ToolGrammar, ManyArgumentsKeepTheirOrder) {
  json::object properties;
  for (int i = 0; i < 100; ++i) properties[fmt::format("k{}", i)] = json::object{{"type", "integer"}};
  const json::array tools = {json::object{
      {"name", "f"},
      {"parameters",
       {{"type", "object"}, {"properties", properties}, {"required", json::array{"k3", "k99"}}}}}};
  for (const auto* dialect : {"qwen-xml", "gemma"}) {
    const auto matcher = matcher_of(tool_set(dialect, ToolMode::eager, json::serialize(tools)));
    const bool xml = std::string_view(dialect) == "qwen-xml";
    const auto call = [xml](std::vector<int> keys) {
      std::string text = xml ? "<function=f>" : "<|tool_call>call:f{";
      for (std::size_t i = 0; i < keys.size(); ++i) {
        text += xml ? fmt::format("<parameter=k{}>1</parameter>", keys[i])
                    : fmt::format("{}k{}:1", i == 0 ? "" : ",", keys[i]);
      }
      return text + (xml ? "</function>" : "}<tool_call|>");
    };
    EXPECT_TRUE(accepts(matcher, call({3, 99}))) << dialect;
    EXPECT_TRUE(accepts(matcher, call({0, 3, 50, 99}))) << dialect;
    EXPECT_FALSE(accepts(matcher, call({99, 3}))) << dialect;
    EXPECT_FALSE(accepts(matcher, call({3}))) << dialect;
  }
}

TEST(ToolGrammar, ToolsWithoutDeclaredArgumentsTakeAny) {
  const auto set = tool_set("qwen-xml", ToolMode::eager, R"([{"name":"f","parameters":{"type":"object"}}])");
  const auto matcher = matcher_of(set);
  EXPECT_TRUE(accepts(matcher, "<function=f></function>"));
  EXPECT_TRUE(accepts(
      matcher, "<function=f><parameter=any_key>text</parameter><parameter=b>1</parameter></function>"));
  EXPECT_FALSE(accepts(matcher, "<function=f><parameter=a b>text</parameter></function>"));
}

TEST(ToolGrammar, LeadingSpaceComesBeforeEagerCalls) {
  const auto set = tool_set("hermes");
  const auto matcher =
      must(compile({ConstraintKind::tools, tool_set_text(set), true}, Vocabulary::of_bytes()));
  EXPECT_TRUE(accepts(matcher, "\n\n<tool_call>\n{\"name\": \"ping\", \"arguments\": {}}\n</tool_call>"));
}

// ---- control tokens

// Bytes, an end, and these tokens: control tokens, or text that is a token by definition.
std::shared_ptr<const Vocabulary> with_controls(const std::vector<std::string>& names, bool defined = false) {
  static std::string bytes = [] {
    std::string all(255, '\0');
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<char>(i);
    return all;
  }();
  VocabularySource source;
  source.size = 256 + static_cast<int>(names.size());
  source.token = [&](Token token) {
    if (token < 255)
      return TokenText{std::string_view(bytes).substr(static_cast<std::size_t>(token), 1), false};
    if (token == 255) return TokenText{"<end>", true};
    return TokenText{std::string_view(names[static_cast<std::size_t>(token) - 256]), !defined, defined};
  };
  source.end_of_generation = {255};
  source.tokenize = [](std::string_view text) {
    std::vector<Token> tokens;
    for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
    return tokens;
  };
  return must(Vocabulary::create(source));
}

TEST(ToolGrammar, MarkersThatAreControlTokensAreWrittenAsSuch) {
  const auto vocabulary = with_controls({"[TOOL_CALLS]", "[ARGS]"});
  const auto set = tool_set("mistral-args", ToolMode::lazy);
  const auto grammar = must(tool_grammar(set, *vocabulary));
  EXPECT_THAT(grammar.markers, ::testing::UnorderedElementsAre(256, 257));
  ASSERT_EQ(grammar.triggers.size(), 1U);
  EXPECT_EQ(grammar.triggers[0].token, 256);
  auto matcher = must(compile({ConstraintKind::tools, tool_set_text(set), false}, vocabulary));
  EXPECT_EQ(matcher.allowed(std::vector<Token>{'['}), 0U);
  ASSERT_TRUE(matcher.consume(256));
  for (const char c : std::string_view("ping")) ASSERT_TRUE(matcher.consume(c));
  EXPECT_EQ(matcher.allowed(std::vector<Token>{257, '{', '}'}), 3U);
}

// A call with its markers as tokens 256 and 257, where those are wanted, and spelled out otherwise.
std::vector<Token> hermes_call(bool open_as_token, bool close_as_token) {
  std::vector<Token> tokens;
  const auto write = [&](std::string_view text) {
    for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
  };
  open_as_token ? tokens.push_back(256) : write("<tool_call>");
  write("\n{\"name\": \"ping\", \"arguments\": {}}\n");
  close_as_token ? tokens.push_back(257) : write("</tool_call>");
  return tokens;
}

TEST(ToolGrammar, MarkersThatAreTokensByDefinitionAreNotSpelledOut) {
  const auto vocabulary = with_controls({"<tool_call>", "</tool_call>"}, true);
  const auto set = tool_set("hermes", ToolMode::eager);
  EXPECT_THAT(must(tool_grammar(set, *vocabulary)).markers, ::testing::IsEmpty());  // they are text anyway
  const auto matcher = must(compile({ConstraintKind::tools, tool_set_text(set), false}, vocabulary));
  const auto call = hermes_call(true, true);
  EXPECT_EQ(matcher.clone().allowed(call), call.size());
  EXPECT_EQ(matcher.clone().allowed(hermes_call(false, true)), 0U);
  EXPECT_LT(matcher.clone().allowed(hermes_call(true, false)), hermes_call(true, false).size());
  std::vector<std::uint32_t> mask(vocabulary->mask_words());
  ASSERT_TRUE(matcher.clone().compute_mask(mask));
  EXPECT_EQ(mask[256 / 32], 1U) << "the opening marker and nothing else";
  EXPECT_EQ(mask['<' / 32], 0U);
}

TEST(ToolGrammar, AModelThatSpellsTheOpeningMarkerOutWakesItsGrammarToo) {
  const auto vocabulary = with_controls({"<tool_call>", "</tool_call>"}, true);
  const auto set = tool_set("hermes", ToolMode::lazy);
  EXPECT_EQ(must(tool_grammar(set, *vocabulary)).triggers[0].token, std::nullopt);
  const auto matcher = must(compile({ConstraintKind::tools, tool_set_text(set), false}, vocabulary));
  for (const bool open_as_token : {true, false}) {
    const auto call = hermes_call(open_as_token, true);
    EXPECT_EQ(matcher.clone().allowed(call), call.size());
  }
}

TEST(ToolGrammar, TextEndsAtAControlToken) {
  const auto vocabulary = with_controls({"<|\"|>", "<|tool_call>", "<tool_call|>"});
  auto matcher = must(
      compile({ConstraintKind::tools, tool_set_text(tool_set("gemma", ToolMode::lazy)), false}, vocabulary));
  std::vector<Token> tokens = {257};
  for (const char c : std::string_view("call:get_weather{city:")) tokens.push_back(c);
  tokens.push_back(256);
  for (const char c : std::string_view("<|\"|> is text here")) tokens.push_back(c);
  tokens.insert(tokens.end(), {256, '}', 258});
  EXPECT_EQ(matcher.allowed(tokens), tokens.size());
}

// A marker in the middle of what ends a value: what stands before it is text as long as the marker does not
// come.
TEST(ToolGrammar, ValuesEndWhereTextAndControlTokenEndThemTogether) {
  const auto vocabulary = with_controls({"｜DSML｜"});
  auto matcher = must(
      compile({ConstraintKind::tools, tool_set_text(tool_set("dsml", ToolMode::lazy)), false}, vocabulary));
  std::vector<Token> tokens;
  const auto write = [&](std::string_view text) {
    while (!text.empty()) {
      const bool marker = text.starts_with("｜DSML｜");
      tokens.push_back(marker ? 256 : static_cast<unsigned char>(text[0]));
      text.remove_prefix(marker ? std::string_view("｜DSML｜").size() : 1);
    }
  };
  write(
      "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"get_weather\">\n<｜DSML｜parameter name=\"city\" "
      "string=\"true\">");
  write("a </b> < c</");
  write("｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>");
  EXPECT_EQ(matcher.allowed(tokens), tokens.size());
}

// ---- tool sets

TEST(ToolSet, SurvivesBeingText) {
  auto set = tool_set("gemma", ToolMode::lazy);
  set.parallel = false;
  set.answer = must(walk_schema(json::object{{"type", "object"}}, SchemaMode::strict));
  const auto read = must(read_tool_set(tool_set_text(set)));
  EXPECT_EQ(tool_set_text(read), tool_set_text(set));
  EXPECT_EQ(read.tools.size(), 4U);
  EXPECT_FALSE(read.parallel);
  EXPECT_EQ(read.mode, ToolMode::lazy);
  EXPECT_TRUE(read.answer);
}

TEST(ToolSet, DamagedTextIsAnError) {
  for (const auto* text : {"", "{", "[]", "{}", R"({"tools":[1]})", R"({"tools":[{"name":"a","root":1}]})"}) {
    EXPECT_EQ(read_tool_set(text).error().code, "tool-set-unreadable") << text;
  }
}

Error walk_error(std::string_view tools, const ToolLimits& limits = {}) {
  std::vector<std::string> warnings;
  const auto walked = walk_tools(must(parse_json(tools)).as_array(), warnings, limits);
  EXPECT_FALSE(walked) << tools;
  return walked ? Error{} : walked.error();
}

TEST(ToolSet, BadNamesAreNamed) {
  for (const auto* name : {"", "a b", "ä", "a/b"}) {
    const auto error = walk_error(json::serialize(json::array{json::object{{"name", name}}}));
    EXPECT_EQ(error.code, "invalid_tool_schema") << name;
    EXPECT_EQ(error.param, "tools[0].function.name");
  }
  EXPECT_THAT(walk_error(R"([{"name":"a"},{"name":"a"}])").message, HasSubstr("Two tools are called 'a'"));
  EXPECT_EQ(walk_error(json::serialize(json::array{json::object{{"name", std::string(65, 'a')}}})).code,
            "invalid_tool_schema");
}

TEST(ToolSet, ParametersAreASchemaOfAnObject) {
  EXPECT_THAT(walk_error(R"([{"name":"a","parameters":{"type":"string"}}])").message, HasSubstr("'object'"));
  EXPECT_THAT(walk_error(R"([{"name":"a","parameters":[]}])").message, HasSubstr("an object"));
}

TEST(ToolSet, StrictToolsAreReadStrictlyAndOthersWithWarnings) {
  const auto* schema =
      R"([{"name":"a","strict":%s,"parameters":{"properties":{"t":{"type":"array","uniqueItems":true}}}}])";
  const auto error = walk_error(std::string(schema).replace(std::string(schema).find("%s"), 2, "true"));
  EXPECT_EQ(error.code, "schema-unsupported");
  EXPECT_EQ(error.param, "tools[0].function.parameters/properties/t/uniqueItems");
  std::vector<std::string> warnings;
  const auto text = std::string(schema).replace(std::string(schema).find("%s"), 2, "false");
  EXPECT_TRUE(walk_tools(must(parse_json(text)).as_array(), warnings));
  EXPECT_THAT(warnings, ElementsAre(HasSubstr("tool 'a', #/properties/t/uniqueItems")));
}

// The library refuses patterns of keys that overlap; nothing in the walk can know.
constexpr std::string_view kOverlapping =
    R"([{"name":"ok"},{"name":"a","strict":%s,"parameters":{"type":"object","properties":{
    "m":{"type":"object","patternProperties":{"x":{"type":"integer"},"y":{"type":"string"}}},"n":{"type":"integer"}},"required":["n"]}}])";

std::string overlapping(std::string_view strict) {
  std::string text(kOverlapping);
  return text.replace(text.find("%s"), 2, strict);
}

TEST(ToolSet, WhatTheLibraryRefusesIsLeftOutOfTheToolConcerned) {
  auto set = tool_set("hermes", ToolMode::eager, overlapping("false"));
  std::vector<std::string> warnings;
  ASSERT_TRUE(settle_tools(set, warnings));
  EXPECT_THAT(warnings, ElementsAre(HasSubstr("tool 'a', #/properties/m")));
  const auto matcher = matcher_of(set);
  EXPECT_TRUE(accepts(
      matcher, "<tool_call>{\"name\": \"a\", \"arguments\": {\"m\": {\"z\": 1}, \"n\": 1}}</tool_call>"));
  EXPECT_FALSE(
      accepts(matcher, "<tool_call>{\"name\": \"a\", \"arguments\": {\"m\": {}, \"n\": \"1\"}}</tool_call>"));
}

TEST(ToolSet, WhatTheLibraryRefusesOfAStrictToolIsAnError) {
  auto set = tool_set("hermes", ToolMode::eager, overlapping("true"));
  std::vector<std::string> warnings;
  const auto settled = settle_tools(set, warnings);
  ASSERT_FALSE(settled);
  EXPECT_EQ(settled.error().param, "tools[1].function.parameters/properties/m");
}

TEST(ToolSet, LimitsAreObserved) {
  EXPECT_EQ(walk_error(R"([{"name":"a"},{"name":"b"}])", {.tools = 1}).param, "tools");
  EXPECT_EQ(
      walk_error(R"([{"name":"a","parameters":{"description":"0123456789012345678901234567890123456789"}}])",
                 {.bytes = 20})
          .kind,
      ErrorKind::too_large);
}

}  // namespace
}  // namespace gezel::grammar
