// Which models may draft for which: with real files.
#include "worker/draft_start.h"

#include <gtest/gtest.h>

#include "llama/test_support.h"

namespace gezel::worker {
namespace {

using llama::testing::gemma;
using llama::testing::gemma_path;
using llama::testing::smollm;
using llama::testing::smollm_path;

StartedDraft start(const std::filesystem::path& draft) {
  protocol::Load load;
  load.draft.model_path = draft.string();
  auto started =
      start_draft(load, smollm(), {.slots = 2, .context_per_slot = 512}, [](float) { return true; });
  EXPECT_TRUE(started) << started.error().message;
  return started ? std::move(*started) : StartedDraft{};
}

TEST(DraftStart, AModelOfTheSameVocabularyDrafts) {
  const auto draft = start(smollm_path());
  ASSERT_NE(draft.model, nullptr);
  EXPECT_EQ(draft.context->slots(), 2);
  EXPECT_EQ(draft.context->context_per_slot(), 512);
  EXPECT_EQ(draft.trouble, "");
}

TEST(DraftStart, AModelOfAnotherVocabularyDoesNotAndSaysWhy) {
  const auto draft = start(gemma_path());
  EXPECT_EQ(draft.model, nullptr);
  EXPECT_EQ(draft.context, nullptr);
  EXPECT_NE(draft.trouble.find(gemma_path().filename().string()), std::string::npos) << draft.trouble;
  EXPECT_NE(draft.trouble.find("vocabulary"), std::string::npos) << draft.trouble;
}

TEST(DraftStart, AFileThatIsNotThereIsNoReasonNotToLoad) {
  EXPECT_NE(start("/absent/draft.gguf").trouble.find("cannot be found"), std::string::npos);
}

TEST(DraftStart, OneThatIsRequiredIsAnError) {
  protocol::Load load;
  load.draft = {.model_path = gemma_path().string(), .max_tokens = 0, .required = true};
  const auto started =
      start_draft(load, smollm(), {.slots = 1, .context_per_slot = 256}, [](float) { return true; });
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().code, "unsupported-feature");
  EXPECT_EQ(started.error().param, "draft_model");
}

TEST(DraftStart, WithoutOneThereIsNothingToDo) {
  EXPECT_EQ(start("").model, nullptr);
}

TEST(VocabularyDifference, IsNoneForTheSameModel) {
  EXPECT_EQ(vocabulary_difference(smollm().vocab(), smollm().vocab()), "");
  EXPECT_EQ(vocabulary_difference(gemma().vocab(), gemma().vocab()), "");
}

// Every pair of the library's vocabularies: the same answer both ways, and no two families pass for each
// other.
TEST(VocabularyDifference, TellsFamiliesApart) {
  std::vector<std::unique_ptr<llama::Model>> models;
  for (const auto& path : llama::testing::vocabularies())
    models.push_back(llama::testing::load_or_die(path, true));
  for (std::size_t i = 0; i < models.size(); ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      const auto& a = models[i]->vocab();
      const auto& b = models[j]->vocab();
      const bool same = vocabulary_difference(a, b).empty();
      EXPECT_EQ(same, vocabulary_difference(b, a).empty());
      if (i == j) EXPECT_TRUE(same);
      if (a.size() != b.size() && std::abs(a.size() - b.size()) > 128) EXPECT_FALSE(same);
    }
  }
}

}  // namespace
}  // namespace gezel::worker
