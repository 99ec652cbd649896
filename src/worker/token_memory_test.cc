// Against every vocabulary that comes with the library's source.
#include "worker/token_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "llama/test_support.h"

namespace gezel::worker {
namespace {

using Tokens = std::vector<llama::Token>;

class EveryVocabularysMemory : public testing::TestWithParam<std::filesystem::path> {
 protected:
  std::unique_ptr<llama::Model> model_ = llama::testing::load_or_die(GetParam(), true);
  const llama::Vocab& vocab = model_->vocab();
  TokenMemory memory{vocab};

  // A control token that is found in text, and its text.
  std::string control() const {
    for (llama::Token token = 0; token < vocab.size(); ++token) {
      if (!vocab.is_control(token) || token == vocab.bos()) continue;
      const std::string text(vocab.piece(token, true));
      if (!text.empty() && vocab.tokenize(text, false, true) == Tokens{token}) return text;
    }
    return {};
  }
  // Of the text alone: one token a character, which no tokenizer would choose.
  Tokens letter_by_letter(std::string_view text) const {
    Tokens out;
    for (const char c : text) {
      const Tokens one = vocab.tokenize(std::string(1, c), false, false);
      out.insert(out.end(), one.begin(), one.end());
    }
    return out;
  }
  std::string text_of(const Tokens& tokens) const {
    std::string out;
    for (const auto token : tokens) out += vocab.piece(token, true);
    return out;
  }
  Tokens canonical(std::string_view text) const { return vocab.tokenize(text, true, true); }
};

std::string vocabulary_name(const testing::TestParamInfo<std::filesystem::path>& info) {
  std::string name = info.param.stem().string();
  std::ranges::replace_if(name, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(Grammar, EveryVocabularysMemory, testing::ValuesIn(llama::testing::vocabularies()),
                         vocabulary_name);

TEST_P(EveryVocabularysMemory, WhatWasWrittenKeepsItsTokens) {
  const std::string mark = control();
  const std::string prompt = "Hello 12, w\xc3\xb6rld." + mark + "Why?" + mark;
  Tokens sequence = canonical(prompt);
  const Tokens answer = letter_by_letter("because");
  sequence.insert(sequence.end(), answer.begin(), answer.end());
  memory.set(0, sequence);
  const std::string next = prompt + "because" + mark + "And then? " + mark;
  const Tokens tokens = memory.tokenize(next);
  EXPECT_EQ(text_of(tokens), text_of(canonical(next)));
  const bool spells_itself = text_of(sequence).ends_with(prompt + "because") && !mark.empty();
  if (!spells_itself) {
    EXPECT_EQ(tokens, canonical(next)) << "a vocabulary that changes text is left alone";
  } else {
    ASSERT_GE(tokens.size(), sequence.size());
    EXPECT_TRUE(std::equal(sequence.begin(), sequence.end(), tokens.begin()));
  }
}

TEST_P(EveryVocabularysMemory, TextThatIsNewHasTheTokensItWouldHaveAnyway) {
  const std::string mark = control();
  const std::string prompt = "Hello 12, w\xc3\xb6rld." + mark + "Why?" + mark;
  for (const std::string other : {"becoming", "because of it", "bec", "", "  because", "because"}) {
    Tokens sequence = canonical(prompt);
    const Tokens answer = letter_by_letter("because");
    sequence.insert(sequence.end(), answer.begin(), answer.end());
    memory.set(3, sequence);
    EXPECT_EQ(memory.tokenize(prompt + other), canonical(prompt + other)) << other;
  }
  memory.set(3, {});
  EXPECT_EQ(memory.tokenize(prompt + "because" + mark), canonical(prompt + "because" + mark));
}

TEST_P(EveryVocabularysMemory, TheLongestOfSeveralSequencesIsTaken) {
  const std::string mark = control();
  if (mark.empty()) return;
  const std::string prompt = "A" + mark + "B" + mark;
  memory.set(0, canonical("A" + mark));
  Tokens longest = canonical(prompt);
  const Tokens answer = letter_by_letter("because");
  longest.insert(longest.end(), answer.begin(), answer.end());
  memory.set(1, longest);
  memory.set(2, canonical("Z"));
  const Tokens tokens = memory.tokenize(prompt + "because" + mark);
  EXPECT_EQ(text_of(tokens), text_of(canonical(prompt + "because" + mark)));
  if (text_of(longest).ends_with(prompt + "because")) {
    EXPECT_TRUE(std::equal(longest.begin(), longest.end(), tokens.begin()));
  }
}

TEST_P(EveryVocabularysMemory, WhatASlotHeldIsRememberedUntilItIsForgotten) {
  const std::string mark = control();
  const std::string prompt = "Hello 12." + mark + "Why?" + mark;
  Tokens sequence = canonical(prompt);
  const Tokens answer = letter_by_letter("because");
  sequence.insert(sequence.end(), answer.begin(), answer.end());
  memory.set(0, sequence);
  const Tokens held = memory.tokenize(prompt + "because" + mark);
  memory.retire(0);
  EXPECT_EQ(memory.tokenize(prompt + "because" + mark), held);
  memory.forget_past();
  EXPECT_EQ(memory.tokenize(prompt + "because" + mark), canonical(prompt + "because" + mark));
}

TEST_P(EveryVocabularysMemory, OddInputIsOnlyText) {
  memory.set(0, {});
  memory.set(1, canonical("x"));
  for (const std::string text : {std::string(), std::string("\xff\xfe"), std::string("\0x", 2), control()}) {
    EXPECT_EQ(text_of(memory.tokenize(text)), text_of(canonical(text)));
  }
}

}  // namespace
}  // namespace gezel::worker
