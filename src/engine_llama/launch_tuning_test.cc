#include "engine_llama/launch_tuning.h"

#include <gtest/gtest.h>

#include "base/files.h"
#include "base/test_folder.h"
#include "catalog/catalog.h"

namespace gezel::engine_llama {
namespace {

// What a catalog makes of an entry with these launch settings.
catalog::LaunchTuning read_entry(const std::string& settings) {
  const TestFolder folder;
  folder.write("chat-models/tu/tuned/manifest.json",
               R"({"id":"tuned","name":"T","description":"A model.","maintainer":{"name":"Org"},)"
               R"("parameterSize":"1B","supportsTools":true,"tuning":{"engine":{"llamaCpp":)" +
                   settings + "}}}");
  folder.write("chat-models/tu/tuned/versions/1.0.0/manifest.json",
               R"({"version":"1.0.0","releasedAt":"2026-08-01T00:00:00Z","approxSizeBytes":1,)"
               R"("ollama":{"tag":"tuned"}})");
  const catalog::Catalog catalog({.user_folder = folder.path(), .bundled = {}});
  const auto entry = catalog.get(catalog::Kind::chat_model, "tuned");
  return entry->item->chat->tuning->launch;
}

// Every row of testdata/engine_llama/launch_tuning.jsonl: what the entry says, what the service was started
// with, and what becomes of it.
TEST(LaunchTuning, EverySettingHoldsOrIsNamedWithItsReason) {
  const auto table = read_file(GEZEL_TESTDATA "/engine_llama/launch_tuning.jsonl").value();
  for (std::size_t at = 0; at < table.size();) {
    const auto end = table.find('\n', at);
    const std::string line = table.substr(at, end - at);
    at = end + 1;
    const auto parsed = parse_json(line);
    ASSERT_TRUE(parsed) << line;
    const auto& row = parsed->as_object();
    const auto tuning = read_entry(to_json(row.at("says")));
    EmbeddedOptions options;
    if (const auto* own = object_at(row, "own")) {
      if (own->contains("threads")) options.threads = static_cast<int>(int_or(*own, "threads", 0));
      if (own->contains("context")) options.context = int_or(*own, "context", 0);
      if (own->contains("flash")) options.flash_attention = bool_or(*own, "flash", false);
      options.draft.model = string_or(*own, "draft");
      if (own->contains("most")) options.draft.most = static_cast<int>(int_or(*own, "most", 0));
      options.speculation = bool_or(*own, "speculation", true);
    }
    LaunchPlan plan{.threads = 4};
    plan.capacity.emplace();
    apply_launch_tuning(tuning, options, plan);

    json::array ignored;
    for (const auto& verdict : plan.tuning)
      if (!verdict.ignored.empty()) ignored.emplace_back(verdict.setting);
    EXPECT_EQ(ignored, row.contains("ignored") ? row.at("ignored").as_array() : json::array()) << line;
    const json::object empty;
    const auto* plans = object_at(row, "plan");
    const auto& expected = plans ? *plans : empty;
    EXPECT_EQ(plan.threads, int_or(expected, "threads", 4)) << line;
    EXPECT_EQ(plan.capacity->settings.context.catalog.value_or(0), int_or(expected, "context", 0)) << line;
    EXPECT_EQ(plan.chat_template, string_or(expected, "template")) << line;
    EXPECT_EQ(plan.flash_attention,
              expected.contains("flash") ? std::optional(bool_or(expected, "flash", false)) : std::nullopt)
        << line;
  }
}

TEST(LaunchTuning, IsToldAsWhatHoldsAndWhatDoesNot) {
  catalog::LaunchTuning tuning;
  EXPECT_TRUE(launch_tuning_json(judge_launch_tuning(tuning, {})).empty());
  tuning.threads = 3;
  tuning.gpu_layers = -1;
  EXPECT_EQ(to_json(launch_tuning_json(judge_launch_tuning(tuning, {}))),
            R"({"applied":{"threads":3},"ignored":{"nGpuLayers":)"
            R"("this engine computes every layer on the processor"}})");
}

}  // namespace
}  // namespace gezel::engine_llama
