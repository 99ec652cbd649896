#include "cli/near_misses.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gezel::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const std::vector<std::string> kModels{"smollm2-135m-instruct", "gemma3-270m", "local-notes", "Qwen3-0.6B"};

TEST(NearMisses, FindsDroppedSwappedAndAddedLetters) {
  EXPECT_THAT(near_misses(kModels, "smollm2-135m-instrct", 3), ElementsAre("smollm2-135m-instruct"));
  EXPECT_THAT(near_misses(kModels, "gemam3-270m", 3), ElementsAre("gemma3-270m"));
  EXPECT_THAT(near_misses({"models", "ps"}, "modelss", 3), ElementsAre("models"));
}

TEST(NearMisses, FindsPartsOfNamesWhateverTheCase) {
  EXPECT_THAT(near_misses(kModels, "smollm", 3), ElementsAre("smollm2-135m-instruct"));
  EXPECT_THAT(near_misses(kModels, "qwen3", 3), ElementsAre("Qwen3-0.6B"));
}

TEST(NearMisses, SaysNothingAboutWhatIsUnlike) {
  EXPECT_THAT(near_misses(kModels, "mistral-7b", 3), IsEmpty());
  EXPECT_THAT(near_misses(kModels, "", 3), IsEmpty());
}

TEST(NearMisses, PutsTheBestFirstAndStopsAtTheLimit) {
  EXPECT_THAT(near_misses({"abcdxx", "abcdex", "abcdef"}, "abcdef", 2), ElementsAre("abcdef", "abcdex"));
}

TEST(NearMisses, ReadsAsASentence) {
  EXPECT_EQ(did_you_mean({}), "");
  EXPECT_EQ(did_you_mean({"a"}), " Did you mean a?");
  EXPECT_EQ(did_you_mean({"a", "b", "c"}), " Did you mean a, b or c?");
}

}  // namespace
}  // namespace gezel::cli
