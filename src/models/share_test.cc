#include "models/share.h"

#include <gmock/gmock.h>

namespace gezel::models {
namespace {

using ::testing::HasSubstr;

const Payload kPayload{.repository = "org/model",
                       .files = {{.name = "m.gguf", .sha256 = "aa"},
                                 {.name = "mmproj-m.gguf", .sha256 = "bb", .optional = true}},
                       .chat_template = {}};

SharedCandidate copy(std::map<std::string, std::string> sha256, std::vector<std::string> folder = {}) {
  return {.id = "m", .sha256 = std::move(sha256), .folder = std::move(folder)};
}

std::string refusal(const SharedCandidate& candidate) {
  const auto checked = check_shareable(candidate, kPayload);
  if (checked) return "";
  EXPECT_EQ(checked.error().code, "not_shareable");
  return checked.error().message;
}

TEST(Share, ACopyThatIsTheCatalogsToTheByteMayBeShared) {
  EXPECT_EQ(refusal(copy({{"m.gguf", "AA"}}, {"manifest.json", "m.gguf"})), "");
  EXPECT_EQ(refusal(copy({{"m.gguf", "aa"}, {"mmproj-m.gguf", "bb"}})), "");
}

TEST(Share, OneWithOtherBytesMayNot) {
  EXPECT_THAT(refusal(copy({{"m.gguf", "ab"}})), HasSubstr("m.gguf has the SHA-256 ab instead of aa"));
  EXPECT_THAT(refusal(copy({{"m.gguf", "aa"}, {"mmproj-m.gguf", "bc"}})), HasSubstr("mmproj-m.gguf"));
}

TEST(Share, OneThatIsNotWholeMayNot) {
  EXPECT_THAT(refusal(copy({{"mmproj-m.gguf", "bb"}})), HasSubstr("m.gguf is missing"));
}

TEST(Share, WeightsThatTheCatalogDoesNotNameAreRefused) {
  EXPECT_THAT(refusal(copy({{"m.gguf", "aa"}}, {"m.gguf", "other.GGUF"})), HasSubstr("other.GGUF"));
  EXPECT_THAT(refusal(copy({{"m.gguf", "aa"}}, {"x.safetensors"})), HasSubstr("x.safetensors"));
  EXPECT_EQ(refusal(copy({{"m.gguf", "aa"}}, {"notes.txt"})), "");
}

}  // namespace
}  // namespace gezel::models
