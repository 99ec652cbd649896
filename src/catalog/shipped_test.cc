// What the specification says of the data that is shipped (section 20).

#include <gmock/gmock.h>

#include <fstream>
#include <set>

#include "catalog/backend.h"
#include "catalog/bundled.h"
#include "catalog/catalog.h"
#include "catalog/license.h"
#include "catalog/lint.h"
#include "catalog/parse.h"

namespace gezel::catalog {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Parsed shipped(std::string_view name) {
  for (const auto& file : bundled_files()) {
    if (file.name == name) return parse_packed(file.text).value();
  }
  return {};
}

class Shipped : public ::testing::Test {
 protected:
  const Item& item(std::string_view id) {
    for (const auto& each : chat.items) {
      if (each->id == id) return *each;
    }
    ADD_FAILURE() << id;
    std::abort();
  }
  const Version& version(std::string_view id) { return item(id).versions.front(); }

  Parsed chat = shipped("chat-models.json");
  const Host linux_host{};
  const Host mac{.system = HostSystem::macos, .arm64 = true};
  const Host windows_host{.system = HostSystem::windows, .ds4_server = true};
};

TEST_F(Shipped, Case1AllEntriesParseAndSplitSetsAddUp) {
  EXPECT_EQ(chat.items.size(), 29U);
  EXPECT_TRUE(chat.problems.empty()) << chat.problems.front().message;
  for (const auto& each : chat.items) {
    for (const auto& one : each->versions) {
      if (!one.llama_cpp) continue;
      Bytes total = 0;
      for (const auto& file : one.llama_cpp->files) {
        EXPECT_EQ(file.sha256.size(), 64U);
        total += file.size_bytes;
      }
      EXPECT_EQ(total, one.llama_cpp->size_bytes) << each->id;
    }
  }
}

TEST_F(Shipped, ImagesParse) {
  const auto images = shipped("image-models.json");
  EXPECT_EQ(images.items.size(), 12U);
  EXPECT_TRUE(images.problems.empty()) << images.problems.front().message;
}

TEST_F(Shipped, Case5FootprintOfAGguf) {
  EXPECT_EQ(weights_footprint(Backend::llama_cpp, version("qwen3.6-27b-q4")), 19'085'885'888U);
}
TEST_F(Shipped, Case6FootprintCountsTheProjector) {
  EXPECT_EQ(weights_footprint(Backend::llama_cpp, version("muse-glimmer-30b-q4")), 20'643'799'622U);
}
TEST_F(Shipped, Case7FootprintOfMlx) {
  EXPECT_EQ(weights_footprint(Backend::mlx, version("gemma4-12b-q4")), 12'314'283'205U);
}
TEST_F(Shipped, Case8KvOfOrnith) {
  EXPECT_EQ(kv_footprint(Backend::llama_cpp, *item("ornith-9b-q4").chat, 65536), 1'209'447'219U);
  EXPECT_EQ(kv_footprint(Backend::mlx, *item("ornith-9b-q4").chat, 65536), 2'198'994'944U);
}
TEST_F(Shipped, Case9KvOfNemotron) {
  EXPECT_EQ(kv_footprint(Backend::llama_cpp, *item("nemotron3.5-lightning-30b-q4").chat, 32768),
            110'729'626U);
}
TEST_F(Shipped, Case10Ds4FootprintFollowsTheContext) {
  EXPECT_EQ(footprint(Backend::ds4, item("glm-5.2-754b-q2"), version("glm-5.2-754b-q2"), 32768),
            58'376'872'960U);
}

TEST_F(Shipped, Case11ADisabledMlxBuildIsNotChosen) {
  EXPECT_EQ(choose_backend(version("ornith1.5-35b-a3b-q8"), mac), Backend::llama_cpp);
}
TEST_F(Shipped, Case12Ds4WithoutItsProgramIsNotListed) {
  EXPECT_EQ(choose_backend(version("glm-5.2-754b-q2"), linux_host), std::nullopt);
  EXPECT_FALSE(can_run(Backend::ds4, linux_host));
  Host with = linux_host;
  with.ds4_server = true;
  EXPECT_EQ(choose_backend(version("glm-5.2-754b-q2"), with), Backend::ds4);
}
TEST_F(Shipped, Case13MlxOnlyItems) {
  const Version& bonsai = version("ternary-bonsai-27b-q2");
  EXPECT_EQ(choose_backend(bonsai, linux_host), std::nullopt);
  EXPECT_EQ(choose_backend(bonsai, mac), Backend::mlx);
  Host store = mac;
  store.store = true;
  EXPECT_EQ(choose_backend(bonsai, store), std::nullopt);
}
TEST_F(Shipped, Case14WindowsNeverHasDs4) {
  EXPECT_EQ(choose_backend(version("deepseek-v4-flash-284b-q2"), windows_host), Backend::llama_cpp);
  EXPECT_EQ(choose_backend(version("glm-5.2-754b-q2"), windows_host), std::nullopt);
}
TEST_F(Shipped, Case16And17OffersTheIdsThatWork) {
  EXPECT_FALSE(has_source(Backend::mlx, version("muse-glimmer-30b-q4")));
  EXPECT_THAT(working_ids(item("muse-glimmer-30b-q4"), version("muse-glimmer-30b-q4"), linux_host),
              ElementsAre("llama-cpp:muse-glimmer-30b-q4"));
  EXPECT_FALSE(has_source(Backend::mlx, version("ornith1.5-35b-a3b-q8")));
  EXPECT_THAT(working_ids(item("ornith1.5-35b-a3b-q8"), version("ornith1.5-35b-a3b-q8"), mac),
              ElementsAre("llama-cpp:ornith1.5-35b-a3b-q8"));
}

TEST_F(Shipped, Case53RestrictedLicencesAreNeverRecommended) {
  Item mistral = item("mistral-medium-3.5-128b-q4");
  EXPECT_EQ(mistral.license_class, LicenseClass::custom_restricted);
  mistral.reco_score = 50;
  EXPECT_FALSE(is_recommendable(mistral));
}
TEST_F(Shipped, Case54AModelWithoutToolsIsNeverRecommended) {
  Item talkie = item("talkie-1930-13b-q4");
  talkie.reco_score = 50;
  EXPECT_FALSE(is_recommendable(talkie));
  EXPECT_TRUE(is_recommendable(item("qwen3.6-27b-q4")));
}

TEST_F(Shipped, OldIdsStillMeanTheirModels) {
  for (const auto& [old, now] : {std::pair{"qwen3.6", "qwen3.6-27b-q4"},
                                 {"gpt-oss", "gpt-oss-20b-q4"},
                                 {"mistral-medium-3.5", "mistral-medium-3.5-128b-q4"},
                                 {"qwen3.5-122b-a10b", "qwen3.5-122b-a10b-q4"},
                                 {"gemma4:e2b", "gemma4-e2b-q4"}})
    EXPECT_EQ(resolve_id(old, chat.items), now);
}

TEST_F(Shipped, LicencesAreShownWithClassAndAddress) {
  const auto license = license_of(item("llama3.2-3b-q4"));
  EXPECT_EQ(license.license_class, LicenseClass::custom_restricted);
  EXPECT_FALSE(license.url.empty());
  EXPECT_EQ(commercial_use(LicenseClass::commercial_restricted), false);
  EXPECT_EQ(commercial_use(LicenseClass::unknown), std::nullopt);
  const auto images = shipped("image-models.json");
  for (const auto& each : images.items) {
    const bool restricted = each->license_class == LicenseClass::commercial_restricted;
    EXPECT_EQ(license_line(license_of(*each)).find("NOT FOR COMMERCIAL USE") != std::string::npos,
              restricted);
  }
}

// Known gaps stand in a file, one "id rule" a line; a new one fails, and one that was closed must leave it.
TEST_F(Shipped, LintFindsNothingNew) {
  std::set<std::string> known;
  std::ifstream file(std::string(GEZEL_TESTDATA) + "/catalog/lint-gaps.txt");
  for (std::string line; std::getline(file, line);) {
    if (!line.empty() && line.front() != '#') known.insert(line);
  }
  auto items = chat.items;
  const auto images = shipped("image-models.json");
  items.insert(items.end(), images.items.begin(), images.items.end());
  for (const auto& finding : lint(items)) {
    const std::string key = finding.id + " " + finding.rule;
    EXPECT_EQ(known.erase(key), 1U) << finding.rule << ": " << finding.message;
  }
  for (const auto& left : known) ADD_FAILURE() << "no longer a gap: " << left;
}

TEST(Lint, FindsEachFault) {
  auto images = shipped("image-models.json");
  Item image = *images.items.front();
  image.id = "local-x";
  image.license = "OpenMDW 1.1";
  image.image->commercial_use = !image.image->commercial_use;
  Item chat = *shipped("chat-models.json").items.at(3);
  chat.chat->tuning.reset();
  chat.versions[0].llama_cpp->files[0].size_bytes += 1;
  chat.versions[0].mlx->quantization = "8bit";
  chat.versions[0].mlx->repository += "-qat";
  chat.versions[0].ds4.emplace();
  chat.aliases.push_back(chat.id);
  std::set<std::string> rules;
  for (const auto& finding :
       lint(std::vector<ItemPtr>{std::make_shared<Item>(image), std::make_shared<Item>(chat)}))
    rules.insert(finding.rule);
  EXPECT_EQ(rules, (std::set<std::string>{"reserved-id", "license-class", "license-commercial", "no-sampling",
                                          "unbounded-reasoning", "shard-sum", "bit-width", "qat",
                                          "ds4-resident", "duplicate-name"}));
}

}  // namespace
}  // namespace gezel::catalog
