#include "grammar/vocabulary.h"

#include <gmock/gmock.h>

#include "grammar/test_support.h"

namespace gezel::grammar {
namespace {

using ::testing::ElementsAre;
using testing::must;

// Bytes 0 to 254, then words, then the end.
struct Made {
  std::vector<std::string> texts;
  VocabularySource source;
};

std::unique_ptr<Made> made(const std::vector<std::string>& words, Tokenize tokenize) {
  auto result = std::make_unique<Made>();
  for (int byte = 0; byte < 255; ++byte) result->texts.emplace_back(1, static_cast<char>(byte));
  result->texts.insert(result->texts.end(), words.begin(), words.end());
  result->texts.emplace_back("<end>");
  auto* raw = result.get();
  result->source.size = static_cast<int>(raw->texts.size());
  result->source.token = [raw](Token token) {
    const auto& text = raw->texts[static_cast<std::size_t>(token)];
    return TokenText{text, text.size() > 1 && text.front() == '<'};
  };
  result->source.end_of_generation = {result->source.size - 1};
  result->source.tokenize = std::move(tokenize);
  return result;
}

std::vector<Token> byte_by_byte(std::string_view text) {
  std::vector<Token> tokens;
  for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
  return tokens;
}

TEST(Vocabulary, OfBytesHasOneTokenForEachByteAndAnEnd) {
  const auto bytes = Vocabulary::of_bytes();
  EXPECT_EQ(bytes->size(), 256);
  EXPECT_EQ(bytes->bytes('a'), "a");
  EXPECT_EQ(bytes->bytes(0), std::string_view("\0", 1));
  EXPECT_EQ(bytes->bytes(255), "");
  EXPECT_TRUE(bytes->ends_generation(255));
  EXPECT_TRUE(bytes->forces());
  EXPECT_EQ(bytes->control("<end>"), 255);
  EXPECT_EQ(bytes->mask_words(), 8U);
}

TEST(Vocabulary, TokensOutsideTheVocabularyHaveNoText) {
  const auto bytes = Vocabulary::of_bytes();
  EXPECT_EQ(bytes->bytes(-1), "");
  EXPECT_EQ(bytes->bytes(256), "");
  EXPECT_FALSE(bytes->is_control(256));
  EXPECT_FALSE(bytes->ends_generation(256));
}

TEST(Vocabulary, ControlTokensAreFoundByNameAndHaveNoText) {
  const auto source = made({"<|tool|>", "word"}, &byte_by_byte);
  const auto vocabulary = must(Vocabulary::create(source->source));
  EXPECT_EQ(vocabulary->control("<|tool|>"), 255);
  EXPECT_EQ(vocabulary->bytes(255), "");
  EXPECT_EQ(vocabulary->bytes(256), "word");
  EXPECT_EQ(vocabulary->control("word"), std::nullopt);
}

TEST(Vocabulary, TokensByDefinitionAreFoundByNameAndAreText) {
  const auto source = made({"[tool]", "word"}, &byte_by_byte);
  const auto plain = source->source.token;
  source->source.token = [&](Token token) {
    auto text = plain(token);
    text.defined = text.bytes == "[tool]";
    return text;
  };
  const auto vocabulary = must(Vocabulary::create(source->source));
  EXPECT_EQ(vocabulary->marker("[tool]"), 255);
  EXPECT_EQ(vocabulary->control("[tool]"), std::nullopt);
  EXPECT_EQ(vocabulary->bytes(255), "[tool]");
  EXPECT_EQ(vocabulary->marker("<end>"), 257);
  EXPECT_EQ(vocabulary->marker("word"), std::nullopt);
}

TEST(Vocabulary, TakesTheTokenizerAsItIsWhenItsTokensSpellTheText) {
  const auto source = made({"word"}, [](std::string_view text) {
    return text == "word" ? std::vector<Token>{255} : byte_by_byte(text);
  });
  const auto vocabulary = must(Vocabulary::create(source->source));
  EXPECT_THAT(vocabulary->tokenize("word"), ElementsAre(255));
}

TEST(Vocabulary, CutsOffTheBlankThatATokenizerPutsBeforeEveryFragment) {
  const auto source = made({" get", "get"}, [](std::string_view text) {
    std::string padded = " " + std::string(text);
    std::vector<Token> tokens;
    for (std::string_view rest = padded; !rest.empty();) {
      const Token token = rest.starts_with(" get") ? 255 : rest.starts_with("get") ? 256 : rest[0];
      rest.remove_prefix(token == 255 ? 4 : token == 256 ? 3 : 1);
      tokens.push_back(token);
    }
    return tokens;
  });
  const auto vocabulary = must(Vocabulary::create(source->source));
  EXPECT_THAT(vocabulary->tokenize("get"), ElementsAre(256));
  EXPECT_THAT(vocabulary->tokenize(" get"), ElementsAre(255));
  EXPECT_THAT(vocabulary->tokenize("a get"), ElementsAre('a', 255));
}

TEST(Vocabulary, WritesTextWithItsLongestTokensWhenTheTokenizerChangesIt) {
  const auto source =
      made({"ab", "abc", "<|tool|>"}, [](std::string_view) { return std::vector<Token>{'?'}; });
  const auto vocabulary = must(Vocabulary::create(source->source));
  EXPECT_THAT(vocabulary->tokenize("abcabx"), ElementsAre(256, 255, 'x'));
  EXPECT_THAT(vocabulary->tokenize("<|"), ElementsAre('<', '|'));
}

TEST(Vocabulary, AControlTokenFromTheTokenizerDoesNotSpellItsName) {
  const auto source = made({"<|tool|>"}, [](std::string_view text) {
    return text.find("<|tool|>") != std::string_view::npos ? std::vector<Token>{255} : byte_by_byte(text);
  });
  const auto vocabulary = must(Vocabulary::create(source->source));
  EXPECT_EQ(vocabulary->tokenize("<|tool|>").size(), 8U);
}

TEST(Vocabulary, ForcesNothingWithoutTokenizerOrWithoutAllBytes) {
  auto source = made({}, nullptr);
  EXPECT_FALSE(must(Vocabulary::create(source->source))->forces());
  source = made({}, &byte_by_byte);
  source->texts[0xC3] = "";
  EXPECT_FALSE(must(Vocabulary::create(source->source))->forces());
}

TEST(Vocabulary, BytesThatNeverOccurInTextNeedNoToken) {
  auto source = made({}, &byte_by_byte);
  for (const int byte : {0x01, 0x7F, 0xC0, 0xC1, 0xF2, 0xF5, 0xFE})
    source->texts[static_cast<std::size_t>(byte)] = "";
  EXPECT_TRUE(must(Vocabulary::create(source->source))->forces());
}

TEST(Vocabulary, EqualVocabulariesHaveEqualIds) {
  const auto plain = must(Vocabulary::create(made({"word"}, &byte_by_byte)->source))->id();
  EXPECT_EQ(plain, must(Vocabulary::create(made({"word"}, &byte_by_byte)->source))->id());
  EXPECT_NE(plain, must(Vocabulary::create(made({"ward"}, &byte_by_byte)->source))->id());
  EXPECT_NE(plain, must(Vocabulary::create(made({"<word>"}, &byte_by_byte)->source))->id());
}

TEST(Vocabulary, RefusesWhatCannotBeUsed) {
  auto source = made({}, &byte_by_byte);
  source->source.end_of_generation = {256};
  EXPECT_EQ(Vocabulary::create(source->source).error().code, "vocabulary-unusable");
  source->source.end_of_generation = {};
  EXPECT_EQ(Vocabulary::create(source->source).error().code, "vocabulary-unusable");
  EXPECT_EQ(Vocabulary::create({}).error().code, "vocabulary-unusable");
}

TEST(Vocabulary, SeveralTokensMayEndAnAnswer) {
  auto source = made({"<eot>"}, &byte_by_byte);
  source->source.end_of_generation = {256, 255};
  auto matcher =
      must(Matcher::compile(must(Vocabulary::create(source->source)), Notation::lark, "start: \"a\"\n"));
  ASSERT_TRUE(matcher.consume('a'));
  std::vector<std::uint32_t> mask(matcher.vocabulary().mask_words());
  ASSERT_TRUE(matcher.compute_mask(mask));
  EXPECT_EQ(mask[255 / 32], 1U << 31);
  EXPECT_EQ(mask[256 / 32], 1U);
}

}  // namespace
}  // namespace gezel::grammar
