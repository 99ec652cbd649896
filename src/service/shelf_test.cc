#include "service/shelf.h"

#include <gmock/gmock.h>

#include "base/test_folder.h"
#include "catalog/catalog.h"
#include "catalog/test_items.h"

namespace gezel::service {
namespace {

using catalog::testing::entry_json;
using catalog::testing::packed_json;
using catalog::testing::sha;
using ::testing::ElementsAre;

std::string version_of(Bytes size) {
  return fmt::format(
      R"({{"version":"1.0.0","releasedAt":"2026-08-01T00:00:00Z","approxSizeBytes":{0},)"
      R"("llamaCpp":{{"huggingfaceRepo":"org/model","filename":"m.gguf","sha256":"{1}","approxSizeBytes":{0}}}}})",
      size, sha('a'));
}

capacity::MemoryProfile machine_with(Bytes ram) {
  capacity::HostFacts host;
  host.total_ram = ram;
  return capacity::plan_profile(host);
}

class TheShelf : public ::testing::Test {
 protected:
  std::vector<catalog::Resolved> items() const {
    return catalog::Catalog({.user_folder = {}, .override_folder = {}, .service = {}, .bundled = files})
        .list(catalog::Kind::chat_model)
        .value();
  }
  static std::vector<std::string> ids(const Shelf& shelf) {
    std::vector<std::string> out;
    for (const auto& item : shelf.items) out.push_back(item.id);
    return out;
  }
  const std::string packed = packed_json(
      {entry_json("huge", version_of(500 * kGiB), R"("licenseClass":"open","recoScore":90)"),
       entry_json("plain", version_of(1 * kGiB)),
       entry_json("good", version_of(2 * kGiB),
                  R"("licenseClass":"open","recoScore":50,"contextWindow":4096,"aliases":["fine"])")});
  const catalog::BundledFile files[1] = {{"chat.json", packed}};
};

TEST_F(TheShelf, TheBestForTheMachineComesFirstAndWhatIsTooBigLast) {
  const auto shelf = arrange_shelf(items(), {}, machine_with(32 * kGiB));
  EXPECT_THAT(ids(shelf), ElementsAre("llama-cpp:good", "llama-cpp:plain", "llama-cpp:huge"));
  EXPECT_TRUE(shelf.items[0].rated->recommended);
  EXPECT_EQ(shelf.items[2].rated->fit.tier, capacity::FitTier::too_big);
  EXPECT_EQ(shelf.items[2].rated->score, 0);
}

TEST_F(TheShelf, WithoutMemoryFactsTheCuratedOrderHoldsAndNothingIsRated) {
  const auto shelf = arrange_shelf(items(), {}, std::nullopt);
  EXPECT_THAT(ids(shelf), ElementsAre("llama-cpp:huge", "llama-cpp:good", "llama-cpp:plain"));
  const auto entry = downloadable_entry(shelf.items[0]);
  EXPECT_FALSE(entry.contains("fit"));
  EXPECT_FALSE(entry.contains("recommendation"));
}

TEST_F(TheShelf, AnEntryHasWhatAChooserNeeds) {
  const auto shelf = arrange_shelf(items(), {}, machine_with(32 * kGiB));
  const auto entry = downloadable_entry(shelf.items[0]);
  EXPECT_EQ(entry.at("owned_by").as_string(), "llama-cpp");
  EXPECT_EQ(entry.at("name").as_string(), "Model good");
  EXPECT_EQ(entry.at("availability").as_string(), "downloadable");
  EXPECT_EQ(entry.at("download_bytes").to_number<Bytes>(), 2 * kGiB);
  EXPECT_EQ(entry.at("context_window").to_number<int>(), 4096);
  EXPECT_EQ(entry.at("fit").at("tier").as_string(), "fits");
  EXPECT_TRUE(entry.at("recommendation").at("recommended").as_bool());
  EXPECT_EQ(to_json(entry.at("capabilities")),
            R"({"text":true,"tools":true,"structuredOutput":true,"images":false,"foregroundOnly":false})");
  EXPECT_THAT(shelf.aliases.at("good"), ElementsAre("fine"));
}

}  // namespace
}  // namespace gezel::service
