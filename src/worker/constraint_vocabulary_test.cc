// Constraints against every vocabulary that comes with the library's source.
#include "worker/constraint_vocabulary.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <random>

#include "base/utf8.h"
#include "grammar/constraint.h"
#include "llama/test_support.h"

namespace gezel::worker {
namespace {

using grammar::Matcher;
using grammar::Token;

// Loaded once for all tests of a run.
struct Loaded {
  std::unique_ptr<llama::Model> model;
  std::shared_ptr<const grammar::Vocabulary> vocabulary;
};
const Loaded& loaded(const std::filesystem::path& path) {
  static std::map<std::filesystem::path, Loaded> all;
  auto& entry = all[path];
  if (!entry.model) {
    entry.model = llama::testing::load_or_die(path, true);
    auto made = constraint_vocabulary(entry.model->vocab());
    if (made) entry.vocabulary = *made;
  }
  return entry;
}

class EveryVocabulary : public ::testing::TestWithParam<std::filesystem::path> {
 protected:
  const llama::Vocab& vocab = loaded(GetParam()).model->vocab();
  const std::shared_ptr<const grammar::Vocabulary>& vocabulary = loaded(GetParam()).vocabulary;
  // Encoders without tokens for bytes cannot write every text.
  bool writes_text() const { return vocabulary != nullptr && vocabulary->forces(); }

  // Some vocabularies lack a few bytes.
  bool can_write(std::string_view text) const {
    for (const char c : text) {
      if (singles.empty()) {
        for (Token token = 0; token < vocabulary->size(); ++token) {
          if (vocabulary->bytes(token).size() == 1) singles += vocabulary->bytes(token);
        }
      }
      if (singles.find(c) == std::string::npos) return false;
    }
    return true;
  }
  mutable std::string singles;

  std::string text_of(const std::vector<Token>& tokens) const {
    std::string text;
    for (const Token token : tokens) text += vocabulary->bytes(token);
    return text;
  }
};

INSTANTIATE_TEST_SUITE_P(Grammar, EveryVocabulary, ::testing::ValuesIn(llama::testing::vocabularies()), [](const auto& info) {
  std::string name = info.param.stem().string().substr(std::string_view("ggml-vocab-").size());
  std::ranges::replace_if(name, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
});

// Fragments as grammars force them: they begin anywhere, also in the middle of a word or with white space.
const std::vector<std::string> kFragments = {
    "{\"name\": \"",
    "get_weather",
    "\", \"arguments\": {\"city\": \"",
    " leading blank",
    "  two",
    "\n\nlines\n",
    "}}\n</tool_call>",
    "ünïcödé 🦙 日本語",
    "\t\"x\"",
    "\\\"\\n",
    "a",
    " ",
    "<|im_end|>",
    "<s>",
    "[INST]",
    "\x01\x7f",
    "1234567890",
    "ing",
};

TEST(ConstraintVocabularies, AllButEncodersWriteText) {
  std::vector<std::string> without;
  for (const auto& path : llama::testing::vocabularies()) {
    const auto& vocabulary = loaded(path).vocabulary;
    if (vocabulary == nullptr || !vocabulary->forces()) without.push_back(path.stem().string());
  }
  EXPECT_THAT(without, ::testing::UnorderedElementsAre("ggml-vocab-bert-bge", "ggml-vocab-nomic-bert-moe"));
}

TEST_P(EveryVocabulary, TokensOfAnyFragmentSpellExactlyIt) {
  if (!writes_text()) return;
  std::mt19937 random(1);
  auto fragments = kFragments;
  for (int i = 0; i < 200; ++i) {
    std::string text(random() % 40, '\0');
    for (auto& c : text) c = static_cast<char>(random() & 0xff);
    fragments.push_back(sanitize_utf8(text));
  }
  for (const auto& fragment : fragments) {
    if (can_write(fragment)) EXPECT_EQ(text_of(vocabulary->tokenize(fragment)), fragment);
  }
  EXPECT_TRUE(can_write(kFragments[0]) && can_write("ünïcödé 🦙 日本語"));
}

// What a model has learned to write: not spelled byte by byte, and no blank that is not there.
TEST_P(EveryVocabulary, OrdinaryFragmentsTakeTheTokensOfTheTokenizer) {
  if (!writes_text()) return;
  for (const auto* fragment : {"weather", "\", \"arguments\": {\"city\": \"", "\"name\": \""}) {
    const auto tokens = vocabulary->tokenize(fragment);
    const auto inside = vocab.tokenize(std::string("x\n") + fragment, false, false);
    EXPECT_LE(tokens.size(), inside.size()) << fragment;
  }
}

TEST_P(EveryVocabulary, TokensWithoutOutputAreReachedByIdOnly) {
  if (vocabulary == nullptr) return;
  for (Token token = 0; token < vocabulary->size(); ++token) {
    if (!vocab.piece(token).empty()) continue;
    EXPECT_EQ(vocabulary->bytes(token), "") << token;
  }
}

// The whole way: masks and forced tokens lead to exactly this text, whatever the vocabulary.
TEST_P(EveryVocabulary, AnswersAreWrittenUnderMasksAndForcedTokens) {
  if (!writes_text()) return;
  const std::string schema =
      R"({"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer"},
      "tags":{"type":"array","items":{"enum":["sun","rain","snow"]}}},"required":["city","days","tags"],"additionalProperties":false})";
  const std::string wanted =
      "{\"city\": \"Zürich \\\"old\\\" town 日本\", \"days\": 12, \"tags\": [\"sun\", \"snow\"]}";
  const auto prepared = grammar::prepare({grammar::ConstraintKind::json_schema, schema, false});
  ASSERT_TRUE(prepared);
  auto matcher = grammar::compile(prepared->spec, vocabulary);
  ASSERT_TRUE(matcher) << matcher.error().message;
  const auto canonical = vocab.tokenize(wanted, false, false);
  std::vector<std::uint32_t> mask(vocabulary->mask_words());
  std::string written;
  int forced = 0;
  int sampled = 0;
  while (!matcher->stopped()) {
    for (const Token token : matcher->forced()) {
      ASSERT_TRUE(matcher->consume(token)) << matcher->error();
      written += vocabulary->bytes(token);
      ++forced;
    }
    ASSERT_TRUE(wanted.starts_with(written)) << written;
    if (matcher->stopped()) break;
    ASSERT_TRUE(matcher->compute_mask(mask)) << matcher->error();
    // The model would write the longest allowed token of the text.
    const auto rest = std::string_view(wanted).substr(written.size());
    Token best = -1;
    for (Token token = 0; token < vocabulary->size(); ++token) {
      const auto bytes = vocabulary->bytes(token);
      if (bytes.empty() || !rest.starts_with(bytes)) continue;
      if ((mask[static_cast<std::size_t>(token) / 32] >> (token % 32) & 1) == 0) continue;
      if (best < 0 || bytes.size() > vocabulary->bytes(best).size()) best = token;
    }
    ASSERT_GE(best, 0) << "no token for " << rest;
    ASSERT_TRUE(matcher->consume(best));
    written += vocabulary->bytes(best);
    ++sampled;
  }
  EXPECT_EQ(written, wanted);
  EXPECT_GT(forced, 5);
  EXPECT_LT(forced + sampled, static_cast<int>(wanted.size()) * 3 / 4);
}

TEST_P(EveryVocabulary, ForbiddenTextIsMasked) {
  if (vocabulary == nullptr) return;
  auto matcher = Matcher::compile(vocabulary, grammar::Notation::lark, "start: /[0-9]+/\n");
  ASSERT_TRUE(matcher) << matcher.error().message;
  std::vector<std::uint32_t> mask(vocabulary->mask_words());
  ASSERT_TRUE(matcher->compute_mask(mask));
  std::size_t allowed = 0;
  for (Token token = 0; token < vocabulary->size(); ++token) {
    const auto bytes = vocabulary->bytes(token);
    const bool digits = !bytes.empty() && bytes.find_first_not_of("0123456789") == std::string_view::npos;
    const bool set = (mask[static_cast<std::size_t>(token) / 32] >> (token % 32) & 1) != 0;
    EXPECT_EQ(set, digits) << token << " " << bytes;
    allowed += set ? 1 : 0;
  }
  EXPECT_GE(allowed, 10U);
}

}  // namespace
}  // namespace gezel::worker
