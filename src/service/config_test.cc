#include "service/config.h"

#include <gmock/gmock.h>

#include "base/files.h"
#include "base/test_folder.h"

namespace gezel::service {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(Config, IsReadAsTheTableSays) {
  const auto table = parse_json(read_file(GEZEL_TESTDATA "/service/configs.json").value()).value();
  for (const auto& value : table.as_array()) {
    const json::object& row = value.as_object();
    const std::string text = string_or(row, "text");
    const auto file = parse_config(text);
    json::array problems;
    for (const auto& problem : file.problems) problems.emplace_back(problem.pointer);
    EXPECT_EQ(problems, row.at("problems").as_array()) << text;
    EXPECT_EQ(file.config.pins.provider, string_or(row, "provider")) << text;
    json::object pins;
    for (const auto& [provider, model] : file.config.pins.default_model) pins[provider] = model;
    EXPECT_EQ(pins, row.contains("pins") ? row.at("pins").as_object() : json::object()) << text;
    json::array dirs;
    for (const auto& dir : file.config.model_dirs) dirs.emplace_back(dir.string());
    EXPECT_EQ(dirs, row.contains("dirs") ? row.at("dirs").as_array() : json::array()) << text;
    EXPECT_EQ(file.config.catalog_updates.enabled, bool_or(row, "updates", false)) << text;
    json::object replicas;
    for (const auto& [model, count] : file.config.replicas.wanted) replicas[model] = count;
    EXPECT_EQ(replicas, row.contains("replicas") ? row.at("replicas").as_object() : json::object()) << text;
  }
}

TEST(Config, AModelHasOneWorkerUnlessMoreAreWishedForAndNeverMoreThanTheMost) {
  const auto replicas = parse_config(R"({"localEngineReplicas":{"llama-cpp:a":3,"llama-cpp:b":0,
      "llama-cpp:c":9},"localEngineReplicasMax":5})")
                            .config.replicas;
  EXPECT_EQ(replicas.count("llama-cpp:a"), 3);
  EXPECT_EQ(replicas.count("llama-cpp:b"), 1);
  EXPECT_EQ(replicas.count("llama-cpp:c"), 5);
  EXPECT_EQ(replicas.count("llama-cpp:d"), 1);
  EXPECT_EQ(parse_config(R"({"localEngineReplicas":{"llama-cpp:c":9}})").config.replicas.count("llama-cpp:c"),
            engine::kUsualMostReplicas);
}

TEST(Config, AProblemNamesPointerValueAndWhatItMustBe) {
  const auto file = parse_config(R"({"modelDirs":["models"]})");
  ASSERT_EQ(file.problems.size(), 1U);
  EXPECT_EQ(file.problems[0].message, R"(/modelDirs/0 is "models"; it must be an absolute path)");
}

TEST(Config, NoFileIsAnEmptyConfiguration) {
  const TestFolder home;
  const auto file = read_config(home.path());
  EXPECT_THAT(file.problems, IsEmpty());
  EXPECT_FALSE(file.config.first_run_completed);
}

TEST(Config, AChangeKeepsMembersThatNobodyKnows) {
  const TestFolder home;
  home.write("config.json", R"({"colour":"red","provider":"mlx"})");
  ASSERT_TRUE(change_config(home.path(), [](json::object& members) { members["provider"] = "llama-cpp"; }));
  EXPECT_EQ(parse_json(read_file(config_path(home.path())).value()).value(),
            parse_json(R"({"colour":"red","provider":"llama-cpp"})").value());
}

TEST(Config, AFileThatIsNoObjectIsNotOverwritten) {
  const TestFolder home;
  home.write("config.json", "oops");
  const auto changed = change_config(home.path(), [](json::object&) {});
  ASSERT_FALSE(changed);
  EXPECT_EQ(changed.error().code, "bad_config");
  EXPECT_EQ(read_file(config_path(home.path())).value(), "oops");
}

TEST(Config, ModelFoldersOfTheEnvironmentAreAbsoluteAndSeparatedByColons) {
  EXPECT_THAT(read_model_dirs("/a::/b", "GEZEL_MODEL_DIRS").value(), ElementsAre("/a", "/b"));
  const auto wrong = read_model_dirs("/a:b", "GEZEL_MODEL_DIRS");
  ASSERT_FALSE(wrong);
  EXPECT_THAT(wrong.error().message, HasSubstr("GEZEL_MODEL_DIRS has 'b'"));
}

TEST(Config, AFolderThatIsNamedTwiceIsLookedAtOnce) {
  EXPECT_THAT(join_model_dirs({"/b/"}, {"/a", "/b", "/a/."}), ElementsAre("/b", "/a"));
}

TEST(Config, ReadsHowMuchComputedPromptsMayTake) {
  const auto file = parse_config(
      R"({"cacheBudgetMb":{"mlx":1,"embedded":512},"embeddedDiskCache":false,"embeddedDiskCacheBudgetMb":0})");
  EXPECT_TRUE(file.problems.empty());
  EXPECT_EQ(file.config.prompt_cache.memory, 512 * kMiB);
  EXPECT_EQ(file.config.prompt_cache.disk, false);
  EXPECT_EQ(file.config.prompt_cache.disk_all, 0u);
  EXPECT_EQ(parse_config("{}").config.prompt_cache.memory, std::nullopt);
  EXPECT_FALSE(parse_config(R"({"embeddedCacheScope":"model"})").config.prompt_cache.per_tenant);
  EXPECT_TRUE(parse_config(R"({"embeddedCacheScope":"tenant"})").config.prompt_cache.per_tenant);
}

TEST(Config, NamesAWrongBudgetOfComputedPrompts) {
  for (const auto& [text, pointer] : std::vector<std::pair<std::string, std::string>>{
           {R"({"cacheBudgetMb":4})", "/cacheBudgetMb"},
           {R"({"cacheBudgetMb":{"embedded":-1}})", "/cacheBudgetMb/embedded"},
           {R"({"embeddedCacheScope":"all"})", "/embeddedCacheScope"},
           {R"({"embeddedDiskCache":"yes"})", "/embeddedDiskCache"},
           {R"({"embeddedDiskCacheBudgetMb":1.5})", "/embeddedDiskCacheBudgetMb"}}) {
    const auto file = parse_config(text);
    ASSERT_EQ(file.problems.size(), 1u) << text;
    EXPECT_EQ(file.problems[0].pointer, pointer);
  }
}

TEST(Config, ReadsWhichModelDrafts) {
  const auto file = parse_config(
      R"({"llamaCppSpecType":"draft-simple","llamaCppDraftModelPath":"/m/small.gguf","llamaCppSpecDraftNMax":8})");
  EXPECT_TRUE(file.problems.empty());
  EXPECT_EQ(file.config.draft.type, "draft-simple");
  EXPECT_EQ(file.config.draft.model, "/m/small.gguf");
  EXPECT_EQ(file.config.draft.most, 8);
  EXPECT_FALSE(parse_config("{}").config.draft.any());
}

TEST(Config, NamesAWrongSettingOfDrafts) {
  for (const auto& [text, pointer] : std::vector<std::pair<std::string, std::string>>{
           {R"({"llamaCppSpecType":"draft-mtp"})", "/llamaCppSpecType"},
           {R"({"llamaCppDraftModelPath":""})", "/llamaCppDraftModelPath"},
           {R"({"llamaCppSpecDraftNMax":49})", "/llamaCppSpecDraftNMax"}}) {
    const auto file = parse_config(text);
    ASSERT_EQ(file.problems.size(), 1u) << text;
    EXPECT_EQ(file.problems[0].pointer, pointer);
    EXPECT_FALSE(file.config.draft.any());
  }
}

}  // namespace
}  // namespace gezel::service
