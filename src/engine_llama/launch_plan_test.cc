// Plans for real files, and the store as an engine sees it.
#include "engine_llama/launch_plan.h"

#include <gtest/gtest.h>

#include "base/ids.h"
#include "base/test_folder.h"
#include "engine_llama/model_source.h"
#include "engine_llama/test_models.h"

namespace gezel::engine_llama {
namespace {

Result<std::vector<std::string>> all_well() {
  return std::vector<std::string>{};
}

TEST(LaunchPlan, LeavesOutWhatFailedTheSelfTest) {
  EmbeddedOptions options;
  options.excluded_buffer_types = {"CPU_REPACK"};
  const auto plan = make_planner(options, [] {
    return Result<std::vector<std::string>>(std::vector<std::string>{"AMX"});
  })(installed(test_model("SmolLM2-135M-Instruct.Q4_1.gguf")));
  ASSERT_TRUE(plan) << plan.error().error.message;
  EXPECT_EQ(plan->excluded_buffer_types, (std::vector<std::string>{"AMX", "CPU_REPACK"}));
}

TEST(LaunchPlan, ASelfTestThatCannotRunMakesTheEngineUnusable) {
  const auto plan = make_planner({}, [] {
    return Result<std::vector<std::string>>(fail(ErrorKind::unavailable, "engine-unusable", "no report"));
  })(installed(test_model("SmolLM2-135M-Instruct.Q4_1.gguf")));
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().error.code, "engine-unusable");
}

TEST(LaunchPlan, WishesOfTheUserAreKept) {
  EmbeddedOptions options;
  options.slots = 2;
  options.context = 1024;
  options.threads = 3;
  const auto plan = make_planner(options, all_well)(installed(test_model("SmolLM2-135M-Instruct.Q4_1.gguf")));
  ASSERT_TRUE(plan) << plan.error().error.message;
  EXPECT_EQ(plan->capacity->settings.slots, 2);
  EXPECT_EQ(plan->capacity->settings.context.model_override, 1024);
  EXPECT_EQ(plan->threads, 3);
}

// Measured with all processors, a worker would be loaded with all of them.
TEST(LaunchPlan, CalibrationOfOneOfSeveralWorkersIsForItsShareOfTheProcessors) {
  EmbeddedOptions options;
  options.calibration = true;
  const auto model = installed(test_model("SmolLM2-135M-Instruct.Q4_1.gguf"));
  const auto alone = make_planner(options, all_well)(model);
  ASSERT_TRUE(alone) << alone.error().error.message;
  options.replicas = 2;
  const auto shared = make_planner(options, all_well)(model);
  ASSERT_TRUE(shared) << shared.error().error.message;
  EXPECT_EQ(shared->calibration.key.cores, std::max(1, alone->calibration.key.cores / 2));
  EXPECT_LE(shared->calibration.physical_cores, std::max(1, alone->calibration.physical_cores / 2));
  EXPECT_EQ(shared->calibration.key.workers, 2);
  EXPECT_NE(shared->calibration.key.id(), alone->calibration.key.id());
}

TEST(LaunchPlan, WithoutWishesItFollowsTheFileAndTheMachine) {
  const auto plan = make_planner({}, all_well)(installed(test_model("gemma-3-270m-q4_k_m.gguf")));
  ASSERT_TRUE(plan) << plan.error().error.message;
  EXPECT_EQ(plan->capacity->model.native, 32'768);
  EXPECT_EQ(plan->capacity->model.architecture, "gemma3");
  EXPECT_FALSE(plan->capacity->settings.slots);
  EXPECT_GE(plan->threads, 1);
  EXPECT_EQ(plan->vocabulary, 262'144);
  EXPECT_EQ(plan->profile.name, "gemma-3");
  EXPECT_EQ(plan->profile.tuning.sampling.top_k, 64);
}

TEST(LaunchPlan, WhatTheCatalogSaysOfAModelLiesBelowItsProfile) {
  const TestFolder folder;
  folder.write("chat-models/tu/tuned/manifest.json",
               R"({"id":"tuned","name":"T","description":"A model.","maintainer":{"name":"Org"},)"
               R"("parameterSize":"1B","supportsTools":true,"tuning":{"sampling":{"topK":7,"minP":0.125}}})");
  folder.write("chat-models/tu/tuned/versions/1.0.0/manifest.json",
               R"({"version":"1.0.0","releasedAt":"2026-08-01T00:00:00Z","approxSizeBytes":1,)"
               R"("ollama":{"tag":"tuned"}})");
  EmbeddedOptions options;
  options.catalog = std::make_shared<const catalog::Catalog>(
      catalog::CatalogOptions{.user_folder = folder.path(), .bundled = {}});
  auto model = installed(test_model("gemma-3-270m-q4_k_m.gguf"));
  model.id = "tuned";
  const auto plan = make_planner(options, all_well)(model);
  ASSERT_TRUE(plan) << plan.error().error.message;
  EXPECT_EQ(plan->profile.catalog, "tuned");
  EXPECT_EQ(plan->profile.tuning.sampling.min_p, 0.125F);
  EXPECT_EQ(plan->profile.tuning.sampling.top_k, 64) << "the shipped profile counts more";
}

TEST(LaunchPlan, BehavioursAreSwitchedOverTheProfile) {
  EmbeddedOptions options;
  options.behaviors.force = {"prompt.compact-tool-schemas", "loud"};
  const auto plan = make_planner(options, all_well)(installed(test_model("SmolLM2-135M-Instruct.Q4_1.gguf")));
  ASSERT_TRUE(plan) << plan.error().error.message;
  EXPECT_EQ(plan->profile.style.behaviors, prompt::Behaviors{.compact_tool_schemas = true});
}

TEST(LaunchPlan, AFileThatIsNoModelIsInvalid) {
  const auto plan = make_planner({}, all_well)(installed("/proc/self/status"));
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().error.code, "model-invalid");
}

TEST(LaunchPlan, AFileThatCannotBeReachedIsNoVerdictAboutIt) {
  // A folder's name that no system accepts: status() fails although nothing is known about the file.
  const auto plan = make_planner({}, all_well)(installed("/" + std::string(5'000, 'x') + "/m.gguf"));
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().error.code, "model-unreadable");
}

TEST(ModelSource, AsksTheStoreWithAndWithoutTheFamily) {
  SystemClock clock;
  SystemEntropy entropy;
  const TestFolder home;
  models::ModelStore store(home.path(), clock, entropy);
  models::ImportRequest request;
  request.path = test_model("SmolLM2-135M-Instruct.Q4_1.gguf").string();
  request.id = "smol";
  ASSERT_TRUE(store.import(request));
  for (const auto* id : {"smol", "llama-cpp:smol"}) {
    const auto facts = make_model_source(store, id)->find();
    ASSERT_TRUE(facts) << facts.error().message;
    EXPECT_EQ(facts->model.id, "smol");
    EXPECT_EQ(facts->integrity, models::Integrity::unverified);
    EXPECT_EQ(facts->stamp.size, facts->model.size_bytes);
  }
  const auto source = make_model_source(store, "smol");
  const auto model = source->find()->model;
  const auto cancelled = source->verify(model, [] { return false; });
  EXPECT_EQ(cancelled.error().kind, ErrorKind::cancelled);
  EXPECT_TRUE(source->verify(model, [] { return true; }));
  EXPECT_EQ(source->find()->integrity, models::Integrity::unchanged);
  EXPECT_EQ(make_model_source(store, "other")->find().error().code, "model_not_found");
}

}  // namespace
}  // namespace gezel::engine_llama
