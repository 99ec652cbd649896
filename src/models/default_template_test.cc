#include "models/default_template.h"

#include <gtest/gtest.h>

#include "gguf/test_file.h"

namespace gezel::models {
namespace {

std::string vocabulary_with(std::string_view token) {
  return gguf::testing::TestFile()
      .text("general.architecture", "llama")
      .texts("tokenizer.ggml.tokens", 3, token)
      .header();
}

TEST(DefaultTemplate, FollowsTheControlTokensOfTheVocabulary) {
  EXPECT_EQ(default_template_of(vocabulary_with("<start_of_turn>")), "default:gemma");
  EXPECT_EQ(default_template_of(vocabulary_with("<|im_start|>")), "default:chatml");
  EXPECT_EQ(default_template_of(vocabulary_with("<|start_header_id|>")), "default:llama3");
  EXPECT_EQ(default_template_of(vocabulary_with("[INST]")), "default:mistral");
  EXPECT_EQ(default_template_of(vocabulary_with("hello")), "default:plain");
}

TEST(DefaultTemplate, OnlyAWholeTokenCounts) {
  EXPECT_EQ(default_template_of(vocabulary_with("x<start_of_turn>")), "default:plain");
}

TEST(DefaultTemplate, OfAFileThatCannotBeReadIsUnknown) {
  EXPECT_EQ(default_template_of("/nonexistent", 1000), "");
}

}  // namespace
}  // namespace gezel::models
