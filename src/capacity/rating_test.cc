#include "capacity/rating.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/json.h"
#include "capacity/test_machines.h"

namespace gezel::capacity {
namespace {

using namespace testing;  // gib() and the machines of this module
using ::testing::ElementsAre;

std::vector<json::object> read_table(const std::string& name) {
  std::ifstream table(GEZEL_TESTDATA "/capacity/" + name);
  std::vector<json::object> rows;
  for (std::string line; std::getline(table, line);) {
    const auto parsed = parse_json(line);
    EXPECT_TRUE(parsed) << line;
    if (parsed) rows.push_back(parsed->as_object());
  }
  return rows;
}

std::vector<RatedInput> catalog() {
  std::vector<RatedInput> models;
  for (const json::object& row : read_table("rating_catalog.jsonl")) {
    RatedInput model{.id = string_or(row, "id"),
                     .footprint = gib(number_or(row, "gib", 0)),
                     .license_class = string_or(row, "license"),
                     .quantization = string_or(row, "quantization")};
    for (const auto& tag : *array_at(row, "tags")) model.tags.emplace_back(tag.as_string());
    if (row.contains("score")) model.reco_score = number_or(row, "score", 0);
    if (row.contains("tools")) model.supports_tools = bool_or(row, "tools", true);
    models.push_back(std::move(model));
  }
  return models;
}

MemoryProfile host_of(const json::object& row) {
  const json::object& host = *object_at(row, "host");
  const double ram = number_or(host, "ram", 0);
  return host.contains("vram") ? card_host(number_or(host, "vram", 0), ram) : plain_host(ram);
}

void check_case(std::int64_t number) {
  for (const json::object& row : read_table("rating.jsonl")) {
    if (int_or(row, "case", 0) != number) continue;
    const auto rated = rate_models(catalog(), host_of(row));
    const json::array& expect = *array_at(row, "expect");
    ASSERT_EQ(rated.size(), expect.size());
    for (std::size_t i = 0; i < rated.size(); ++i) {
      const json::object& line = expect[i].as_object();
      EXPECT_EQ(rated[i].id, string_or(line, "id")) << i;
      EXPECT_EQ(rated[i].score, int_or(line, "score", -1)) << rated[i].id;
      EXPECT_EQ(rated[i].recommended, bool_or(line, "recommended", false)) << rated[i].id;
    }
    return;
  }
  FAIL() << "case " << number << " is not in the table";
}

// --- rating

TEST(Rating, Case90_ACardOf16GiB) {
  check_case(90);
}
TEST(Rating, Case91_ACardOf32GiBHasNoUseForExperts) {
  check_case(91);
}
TEST(Rating, Case92_AProcessorWantsSmallModels) {
  check_case(92);
  EXPECT_EQ(choose_first_model(catalog(), plain_host(16)).id, "a3");
}

TEST(Rating, Case93_AUnifiedAcceleratorPrefersExperts) {
  const MemoryProfile host =
      plan_profile({.total_ram = gib(128),
                    .nvidia = system::NvidiaMemory{.vram_bytes = gib(120), .unified = true, .devices = 1}});
  const DevicePolicy policy = device_policy(host);
  EXPECT_TRUE(policy.prefer_moe);
  EXPECT_FALSE(policy.exclude_moe);
  const auto rated = rate_models(catalog(), host);
  EXPECT_EQ(rated[0].id, "d35");
  EXPECT_EQ(rated[0].score, 94);
  EXPECT_TRUE(rated[0].recommended);
  const auto z70 = std::ranges::find(rated, "z70", &Rated::id);
  EXPECT_EQ(z70->score, 47);
}

TEST(Rating, Case94_WithoutAProfileTheCatalogsOwnOrderStands) {
  EXPECT_THAT(curated_order(catalog()), ElementsAre("d35", "g27q3", "g27q4", "b9", "a3", "t7", "z70", "e8"));
}

TEST(Rating, BitsAreReadFromTheQuantizationsName) {
  for (const char* low : {"IQ2_XXS", "3bit", "Q3_K_M", "Q2_K"}) EXPECT_TRUE(is_low_bit(low)) << low;
  for (const char* not_low : {"Q4_K_M", "MXFP4", "BF16", "", "unknown", "F32"})
    EXPECT_FALSE(is_low_bit(not_low)) << not_low;
}

TEST(Rating, ScoresNeverRiseDownTheList) {
  for (const MemoryProfile& host : {plain_host(8), plain_host(64), card_host(8, 32), card_host(24, 64),
                                    card_host(80, 256), unified_host(16), unified_host(128)}) {
    const auto rated = rate_models(catalog(), host);
    for (std::size_t i = 1; i < rated.size(); ++i) {
      EXPECT_LE(rated[i].score, rated[i - 1].score);
      EXPECT_LE(rated[i].rating_class, rated[i - 1].rating_class);
    }
  }
}

// On machines of one kind: a card that outgrows offloading has another policy, not a lower class.
TEST(Rating, PropertyMoreMemoryNeverLowersTierOrClass) {
  for (const bool unified : {false, true}) {
    std::map<std::string, Rated> before;
    for (double ram = 4; ram < 160; ram += 1) {
      for (const Rated& now : rate_models(catalog(), unified ? unified_host(ram) : plain_host(ram))) {
        const auto found = before.find(now.id);
        if (found != before.end()) {
          EXPECT_GE(now.fit.tier, found->second.fit.tier) << now.id << " " << ram;
          EXPECT_GE(now.rating_class, found->second.rating_class) << now.id << " " << ram;
        }
        before.insert_or_assign(now.id, now);
      }
    }
  }
}

// --- first run and hints

TEST(FirstRun, WithoutARecommendationTheSmallestIsABestEffort) {
  const FirstChoice choice = choose_first_model(catalog(), plain_host(4));
  EXPECT_EQ(choice.id, "a3");
  EXPECT_TRUE(choice.best_effort);
  EXPECT_EQ(choice.profile.total_ram_bytes, gib(4));
}

TEST(FirstRun, WithoutCandidatesTheSafeDefaultIsTaken) {
  const FirstChoice choice = choose_first_model({{.id = "x", .footprint = 1}}, plain_host(16));
  EXPECT_EQ(choice.id, "gemma4-e2b-q4");
  EXPECT_TRUE(choice.best_effort);
}

TEST(FirstRun, ALargeCardPassesOverExpertsUnlessThereIsNothingElse) {
  const RatedInput experts{
      .id = "moe", .footprint = gib(400), .tags = {"moe"}, .reco_score = 9, .license_class = "open"};
  const RatedInput dense{.id = "dense", .footprint = gib(500), .reco_score = 9, .license_class = "open"};
  EXPECT_EQ(choose_first_model({experts, dense}, card_host(48, 64)).id, "dense");
  EXPECT_EQ(choose_first_model({experts}, card_host(48, 64)).id, "moe");
}

TEST(Hints, AdviceGoesByTheMachinesBandwidth) {
  const RatedInput large{.id = "l", .footprint = gib(10)},
      moe{.id = "m", .footprint = gib(10), .tags = {"moe"}};
  const Fit fits{.tier = FitTier::fits}, too_big{};
  EXPECT_EQ(device_hint(large, fits, plain_host(64)), Hint::low_acceleration);
  EXPECT_EQ(device_hint(large, too_big, plain_host(64)), Hint::none);
  EXPECT_EQ(device_hint(moe, fits, card_host(16, 48)), Hint::good_match);
  EXPECT_EQ(device_hint(large, fits, card_host(16, 48)), Hint::large_dense);
  EXPECT_EQ(device_hint(large, fits, card_host(80, 256)), Hint::none);
}

}  // namespace
}  // namespace gezel::capacity
