// Masks of constraints on a real vocabulary: they can be computed within the limits all along an answer.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <random>

#include "grammar/constraint.h"
#include "grammar/tool_grammar.h"
#include "llama/test_support.h"
#include "worker/constraint_vocabulary.h"

namespace gezel::worker {
namespace {

using grammar::Matcher;
using grammar::Token;

const std::shared_ptr<const grammar::Vocabulary>& vocabulary() {
  static const auto made = [] {
    static const auto model =
        llama::testing::load_or_die(llama::testing::vocab_folder() / "ggml-vocab-llama-bpe.gguf", true);
    auto result = constraint_vocabulary(model->vocab());
    EXPECT_TRUE(result);
    return *result;
  }();
  return made;
}

Matcher must_compile(const grammar::ConstraintSpec& spec) {
  auto matcher = grammar::compile(spec, vocabulary());
  if (!matcher) {
    ADD_FAILURE() << matcher.error().message;
    std::abort();
  }
  return std::move(*matcher);
}

Matcher must_prepare(const grammar::ConstraintSpec& spec) {
  const auto prepared = grammar::prepare(spec);
  if (!prepared) {
    ADD_FAILURE() << prepared.error().message;
    std::abort();
  }
  return must_compile(prepared->spec);
}

// Follows the masks at random, from the beginning.
void walk(const Matcher& fresh, std::string_view what) {
  for (unsigned seed = 0; seed < 3; ++seed) {
    Matcher matcher = fresh.clone();
    std::mt19937 random(seed);
    std::vector<std::uint32_t> mask(matcher.vocabulary().mask_words());
    for (int i = 0; i < 60 && !matcher.stopped(); ++i) {
      ASSERT_TRUE(matcher.compute_mask(mask)) << what << ": " << matcher.error();
      std::vector<Token> allowed;
      for (Token token = 0; token < matcher.vocabulary().size(); ++token) {
        const bool set = (mask[static_cast<std::size_t>(token) / 32] >> (token % 32) & 1) != 0;
        if (set && !matcher.vocabulary().ends_generation(token)) allowed.push_back(token);
      }
      if (allowed.empty()) break;
      ASSERT_TRUE(matcher.consume(allowed[random() % allowed.size()])) << what << ": " << matcher.error();
    }
  }
}

TEST(GrammarMasks, OfEveryGrammarOfTheSource) {
  const auto folder = llama::testing::vocab_folder().parent_path() / "grammars";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".gbnf") continue;
    walk(must_prepare({grammar::ConstraintKind::gbnf, llama::testing::read_whole(entry.path()), false}),
         entry.path().stem().string());
  }
}

TEST(GrammarMasks, OfManyTools) {
  json::array tools;
  for (int i = 0; i < 500; ++i) {
    const json::object properties{{"text", {{"type", "string"}}},
                                  {"n", {{"type", "integer"}}},
                                  {"kind", {{"enum", json::array{"a", "b"}}}}};
    tools.push_back(json::object{
        {"name", fmt::format("tool_{}_{}", i % 7, i)},
        {"parameters", {{"type", "object"}, {"properties", properties}, {"required", json::array{"text"}}}}});
  }
  std::vector<std::string> warnings;
  grammar::ToolSet set;
  auto walked = grammar::walk_tools(tools, warnings);
  ASSERT_TRUE(walked);
  set.tools = std::move(*walked);
  set.mode = grammar::ToolMode::eager;
  for (const auto* dialect : {"hermes", "qwen-xml", "gemma", "glm", "lfm2", "mistral-args"}) {
    set.dialect = dialect;
    walk(must_compile({grammar::ConstraintKind::tools, grammar::tool_set_text(set), false}), dialect);
  }
}

TEST(GrammarMasks, OfManyOptionalProperties) {
  json::object properties;
  for (int i = 0; i < 1000; ++i) {
    properties[fmt::format("property_{}", i)] =
        i % 2 == 0 ? json::object{{"type", "string"}, {"pattern", "^[a-z]+( [a-z]+)*$"}}
                   : json::object{{"type", json::array{"integer", "null"}}};
  }
  for (const bool open : {false, true}) {
    const json::object schema{{"type", "object"}, {"properties", properties}, {"additionalProperties", open}};
    walk(must_prepare({grammar::ConstraintKind::json_schema, json::serialize(schema), false}), "properties");
  }
}

TEST(GrammarMasks, OfManyAlternatives) {
  json::array options;
  for (int i = 0; i < 1000; ++i) {
    options.push_back(json::object{{"type", "object"},
                                   {"properties", {{fmt::format("p{}", i), {{"type", "integer"}}}}},
                                   {"required", json::array{fmt::format("p{}", i)}},
                                   {"additionalProperties", false}});
  }
  walk(must_prepare(
           {grammar::ConstraintKind::json_schema, json::serialize(json::object{{"anyOf", options}}), false}),
       "anyOf");
}

}  // namespace
}  // namespace gezel::worker
