#include <gmock/gmock.h>

#include <random>
#include <sstream>

#include "base/big_stack.h"
#include "llama/llama.h"
#include "llama/test_support.h"

namespace gezel::llama {
namespace {

using ::testing::ElementsAre;
using testing::load_or_die;
using testing::read_whole;
using testing::smollm;

std::vector<std::string> split_cases(const std::string& text) {
  constexpr std::string_view kSeparator = "\n__ggml_vocab_test__\n";
  std::vector<std::string> cases;
  for (std::size_t at = 0; at < text.size();) {
    const auto end = std::min(text.find(kSeparator, at), text.size());
    cases.push_back(text.substr(at, end - at));
    at = end + kSeparator.size();
  }
  return cases;
}

std::vector<std::vector<Token>> split_tokens(const std::string& text) {
  std::vector<std::vector<Token>> all;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    all.emplace_back(std::istream_iterator<Token>(words), std::istream_iterator<Token>());
  }
  return all;
}

// Loaded once for all tests of a run.
const Vocab& vocab_of(const std::filesystem::path& path) {
  static std::map<std::filesystem::path, std::unique_ptr<Model>> models;
  auto& model = models[path];
  if (!model) model = load_or_die(path, true);
  return model->vocab();
}

class EveryVocab : public ::testing::TestWithParam<std::filesystem::path> {
 protected:
  const Vocab& vocab = vocab_of(GetParam());
};

INSTANTIATE_TEST_SUITE_P(Llama, EveryVocab, ::testing::ValuesIn(testing::vocabularies()), [](const auto& info) {
  std::string name = info.param.stem().string().substr(std::string_view("ggml-vocab-").size());
  std::ranges::replace_if(name, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
});

TEST(Vocab, LibrarySourceHasNineteenVocabulariesFifteenWithReferenceTexts) {
  const auto files = testing::vocabularies();
  EXPECT_EQ(files.size(), 19U);
  EXPECT_EQ(std::ranges::count_if(
                files, [](const auto& file) { return std::filesystem::exists(file.string() + ".inp"); }),
            15);
}

TEST_P(EveryVocab, TokenizesItsReferenceTextsAsPublished) {
  const auto inputs = split_cases(read_whole(GetParam().string() + ".inp"));
  const auto outputs = split_tokens(read_whole(GetParam().string() + ".out"));
  ASSERT_EQ(inputs.size(), outputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    EXPECT_EQ(vocab.tokenize(inputs[i], false, false), outputs[i]) << "case " << i << ": " << inputs[i];
  }
}

TEST_P(EveryVocab, TakesAnyBytesWithoutThrowing) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    std::string text(random() % 64, '\0');
    for (auto& c : text) c = static_cast<char>(random() & 0xff);
    EXPECT_NO_THROW(vocab.tokenize(text, round % 2 == 0, round % 3 == 0));
  }
}

TEST_P(EveryVocab, PieceOfEveryTokenIsKnownAndOutOfRangeTokensHaveNone) {
  ASSERT_GT(vocab.size(), 1000);
  std::size_t with_text = 0;
  for (Token token = 0; token < vocab.size(); ++token) with_text += vocab.piece(token, true).empty() ? 0 : 1;
  EXPECT_GT(with_text, static_cast<std::size_t>(vocab.size()) * 9 / 10);
  EXPECT_EQ(vocab.piece(-1, true), "");
  EXPECT_EQ(vocab.piece(vocab.size(), true), "");
}

TEST_P(EveryVocab, BeginningOfTextIsAddedAtMostOnce) {
  const auto begins = [&](const std::vector<Token>& tokens) {
    std::size_t count = 0;
    while (count < tokens.size() && tokens[count] == vocab.bos()) ++count;
    return count;
  };
  EXPECT_EQ(begins(vocab.tokenize("hello", true, true)), vocab.adds_bos() ? 1U : 0U);
  EXPECT_EQ(begins(vocab.tokenize("", true, true)), vocab.adds_bos() ? 1U : 0U);
  if (vocab.bos() < 0) return;
  const std::string begin(vocab.piece(vocab.bos(), true));
  if (vocab.find_special(begin) != vocab.bos()) return;  // this file's token is plain text to its tokenizer
  EXPECT_EQ(begins(vocab.tokenize(begin + "hello", true, true)), 1U);
  EXPECT_EQ(begins(vocab.tokenize(begin + "hello", false, true)), 1U);
}

// Long runs without a word border are what regular-expression pre-tokenizers recurse on; a pool thread has a
// small stack.
TEST_P(EveryVocab, LongTextNeedsLittleStack) {
  std::string mixed;
  for (int i = 0; mixed.size() < 20'000; ++i) mixed += "word" + std::to_string(i) + ", café; ";
  std::vector<std::string> texts = {mixed, std::string(499, 'a') + std::string(499, ' ')};
  for (const char c : {'a', ' ', '7', '!', '\n', '\t'}) texts.emplace_back(20'000, c);
  EXPECT_TRUE(run_on_big_stack(512 * kKiB, [&] {
    for (const auto& text : texts) {
      const auto tokens = vocab.tokenize(text, false, true);
      // BERT has no tokens for white space.
      EXPECT_TRUE(!tokens.empty() || text.find_first_not_of(" \n\t") == std::string::npos)
          << text.substr(0, 20);
    }
  }));
}

TEST(Vocab, RunsBeyondAnyStackAreCutAndKeepTheirText) {
  const auto model = load_or_die(testing::vocab_folder() / "ggml-vocab-deepseek-llm.gguf", true);
  std::string text;
  while (text.size() < 1'100'000) text += "äbc";
  std::string joined;
  for (const Token token : model->vocab().tokenize(text, false, false)) joined += model->vocab().piece(token);
  EXPECT_TRUE(joined == text);
}

TEST(Vocab, ControlTokensHaveNoOutputText) {
  const Vocab& vocab = smollm().vocab();
  const Token end = vocab.find_special("<|im_end|>");
  ASSERT_GE(end, 0);
  EXPECT_TRUE(vocab.is_control(end));
  EXPECT_TRUE(vocab.is_end_of_generation(end));
  EXPECT_EQ(vocab.piece(end), "");
  EXPECT_EQ(vocab.piece(end, true), "<|im_end|>");
}

TEST(Vocab, EndOfGenerationListAgreesWithTheTest) {
  for (const Model* model : {&smollm(), &testing::gemma()}) {
    const Vocab& vocab = model->vocab();
    std::vector<Token> found;
    for (Token token = 0; token < vocab.size(); ++token) {
      if (vocab.is_end_of_generation(token)) found.push_back(token);
    }
    EXPECT_EQ(found, vocab.end_of_generation());
    EXPECT_THAT(found, ::testing::Contains(vocab.eos()));
  }
}

TEST(Vocab, SpecialTextBecomesTokensOnlyWhenAsked) {
  const Vocab& vocab = smollm().vocab();
  EXPECT_THAT(vocab.tokenize("<|im_start|>", false, true), ElementsAre(vocab.find_special("<|im_start|>")));
  EXPECT_GT(vocab.tokenize("<|im_start|>", false, false).size(), 1U);
}

TEST(Vocab, FindSpecialKnowsOnlyWholeSpecialTokens) {
  const Vocab& vocab = smollm().vocab();
  EXPECT_EQ(vocab.find_special("<|im_"), -1);
  EXPECT_EQ(vocab.find_special("hello"), -1);
  EXPECT_EQ(vocab.find_special(""), -1);
}

TEST(Vocab, PiecesJoinToTheText) {
  for (const Model* model : {&smollm(), &testing::gemma()}) {
    for (const std::string& text :
         {std::string("Hello, world!\n\tCafé 🦙 ½"), std::string("a\0b", 3), std::string("  two  ")}) {
      std::string joined;
      for (const Token token : model->vocab().tokenize(text, false, false))
        joined += model->vocab().piece(token);
      EXPECT_EQ(joined, text);
    }
  }
}

TEST(Vocab, GemmaAsksForABeginningOfText) {
  const Vocab& vocab = testing::gemma().vocab();
  ASSERT_TRUE(vocab.adds_bos());
  const auto plain = vocab.tokenize("hello", true, true);
  EXPECT_EQ(plain, vocab.tokenize("<bos>hello", true, true));
  EXPECT_EQ(plain.front(), vocab.bos());
}

}  // namespace
}  // namespace gezel::llama
