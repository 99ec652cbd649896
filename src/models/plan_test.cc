#include "models/plan.h"

#include <gmock/gmock.h>

#include "catalog/catalog.h"
#include "models/preflight.h"

namespace gezel::models {
namespace {

using catalog::Backend;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Plan : public ::testing::Test {
 protected:
  InstallPlan plan(std::string_view id, Backend backend = Backend::llama_cpp, PlanOptions options = {}) {
    const auto kind = backend == Backend::sd_cpp ? catalog::Kind::image_model : catalog::Kind::chat_model;
    auto out = plan_install(catalog_.get(kind, id).value(), backend, options);
    EXPECT_TRUE(out) << out.error().message;
    return out.value();
  }
  catalog::Catalog catalog_{catalog::CatalogOptions{}};
};

TEST_F(Plan, Case2ShardsAreFlattenedInOrder) {
  const auto made = plan("qwen3.5-122b-a10b-q4");
  ASSERT_EQ(made.files.size(), 3U);
  EXPECT_EQ(made.total_bytes(), 78'260'403'200U);
  EXPECT_EQ(made.files[0].name, "Qwen3.5-122B-A10B-UD-Q4_K_M-00001-of-00003.gguf");
  EXPECT_EQ(made.files[0].size_bytes, 10'943'808U);
  EXPECT_THAT(made.files[0].urls,
              ElementsAre("https://huggingface.co/unsloth/Qwen3.5-122B-A10B-MTP-GGUF/resolve/"
                          "907becb33103ab66b23da06a2dc74a5fca0583bd/UD-Q4_K_M/"
                          "Qwen3.5-122B-A10B-UD-Q4_K_M-00001-of-00003.gguf?download=true"));
}

TEST_F(Plan, Case3TheProjectorIsOptional) {
  const auto made = plan("qwen3.5-122b-a10b-q4", Backend::llama_cpp, {.hub = {}, .include_projector = true});
  EXPECT_EQ(made.files.size(), 4U);
  EXPECT_EQ(made.total_bytes(), 79'172'666'976U);
}

TEST_F(Plan, Case4TheDraftIsAlwaysThere) {
  const auto made = plan("gemma4-e4b-q4");
  ASSERT_EQ(made.files.size(), 2U);
  EXPECT_EQ(made.total_bytes(), 4'275'373'792U);
  EXPECT_EQ(made.files[1].name, "mtp-gemma-4-E4B-it-Q4_0.gguf");
  EXPECT_EQ(made.files[1].role, FileRole::draft);
}

TEST_F(Plan, EveryShippedItemCanBePlanned) {
  for (const auto kind : {catalog::Kind::chat_model, catalog::Kind::image_model}) {
    for (const auto& resolved : catalog_.list(kind).value()) {
      for (const auto backend : {Backend::llama_cpp, Backend::mlx, Backend::ds4, Backend::sd_cpp}) {
        if (!catalog::has_source(backend, *resolved.version)) continue;
        const auto made = plan_install(resolved, backend, {});
        ASSERT_TRUE(made) << resolved.item->id << ": " << made.error().message;
      }
    }
  }
}

TEST_F(Plan, ImagesComeWithTheirAuxiliaryFiles) {
  const auto made = plan("flux-1-schnell-q4", Backend::sd_cpp);
  ASSERT_EQ(made.files.size(), 4U);
  EXPECT_THAT(made.files[1].name, ::testing::StartsWith("vae."));
  EXPECT_EQ(made.media.at("baseModel").as_string(), "flux1");
}

TEST_F(Plan, MirrorsAreTriedInOrderAfterTheHub) {
  PlanOptions options;
  options.hub.base = "https://hub.example";
  options.hub.mirrors = {"https://a.example/base/", "https://b.example"};
  const auto made = plan("qwen3.5-2b-q4", Backend::llama_cpp, options);
  ASSERT_EQ(made.files[0].urls.size(), 3U);
  EXPECT_THAT(made.files[0].urls[0], ::testing::StartsWith("https://hub.example/"));
  EXPECT_THAT(made.files[0].urls[1], ::testing::StartsWith("https://a.example/base/"));
  EXPECT_THAT(made.files[0].urls[2], ::testing::StartsWith("https://b.example/"));
}

TEST_F(Plan, ABackendWithoutASourceIsAnError) {
  const auto disabled =
      plan_install(catalog_.get(catalog::Kind::chat_model, "ornith1.5-35b-a3b-q8").value(), Backend::mlx, {});
  EXPECT_EQ(disabled.error().code, "no_source_for_backend");
  EXPECT_THAT(disabled.error().message, HasSubstr("vision-tower"));
}

TEST_F(Plan, NamesAreCheckedAgainBeforeTheyReachTheDisk) {
  auto made = plan("qwen3.5-2b-q4");
  for (const char* name :
       {"../x.gguf", "a/b.gguf", ".hidden", "manifest.json", "plan.json", "x.partial", ""}) {
    auto bad = made;
    bad.files[0].name = name;
    EXPECT_EQ(check_plan(bad).error().code, "catalog_invalid") << name;
  }
  auto bad = made;
  bad.id = "../other";
  EXPECT_EQ(check_plan(bad).error().code, "invalid-model-id");
  bad = made;
  bad.files.push_back(bad.files[0]);
  EXPECT_FALSE(check_plan(bad));
}

TEST(Preflight, Case30NeedsTwoGibOfHeadRoom) {
  EXPECT_EQ(required_bytes(remaining_bytes({{5'868'826'976, 0}})), 8'016'310'624U);
}
TEST(Preflight, Case31NeedsTwoPercentWhereThatIsMore) {
  EXPECT_EQ(required_bytes(remaining_bytes({{211'075'856'448, 0}})), 215'297'373'577U);
}
TEST(Preflight, Case32APartialIsNotChargedAgain) {
  EXPECT_EQ(required_bytes(remaining_bytes({{211'075'856'448, 200'000'000'000}})), 13'223'340'096U);
}
TEST(Preflight, Case33AFileSystemThatCannotBeMeasuredStopsNobody) {
  EXPECT_TRUE(check_disk("x", 1'000'000'000'000, 0, std::nullopt));
}
TEST(Preflight, APartialCountsForNoMoreThanItsFile) {
  EXPECT_EQ(remaining_bytes({{100, 500}, {100, 0}}), 100U);
}
TEST(Preflight, SaysWhatIsNeededAndWhatIsThere) {
  EXPECT_TRUE(check_disk("x", kGiB, 0, 3 * kGiB));
  const auto short_of = check_disk("big-model", kGiB, kGiB, 3 * kGiB);
  ASSERT_FALSE(short_of);
  EXPECT_EQ(short_of.error().code, "insufficient_disk");
  EXPECT_THAT(short_of.error().message, HasSubstr("\"big-model\" needs 4.0 GiB"));
  EXPECT_THAT(short_of.error().message, HasSubstr("3.0 GiB are"));
}

}  // namespace
}  // namespace gezel::models
