#include "capacity/engine_args.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "capacity/test_machines.h"
#include "capacity/threads.h"
#include "system/cpu.h"
#include "system/test_tree.h"

namespace gezel::capacity {
namespace {

using namespace testing;  // gib() and the machines of this module
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// The value behind a flag; "" when it is not there.
std::string value_of(const std::vector<std::string>& arguments, std::string_view flag) {
  const auto at = std::ranges::find(arguments, flag);
  return at == arguments.end() || at + 1 == arguments.end() ? "" : at[1];
}

TEST(EngineArgs, Case80_WithNothingSetOnlyFlashAttentionAndReuse) {
  EXPECT_THAT(tuning_arguments({.kv_type = KvType::q8_0}),
              ElementsAre("--flash-attn", "on", "--cache-reuse", "256"));
  EXPECT_THAT(tuning_arguments({}), ElementsAre("--cache-reuse", "256"));
}

TEST(EngineArgs, Case81_LayersAndFlashAttentionAreWords) {
  EngineArgsInput input{.kv_type = KvType::q8_0};
  input.config.n_gpu_layers = -1;
  EXPECT_EQ(value_of(tuning_arguments(input), "--n-gpu-layers"), "all");
  input.config.n_gpu_layers = 0;
  EXPECT_EQ(value_of(tuning_arguments(input), "--n-gpu-layers"), "0");
  input.config.flash = flash_setting(false);
  EXPECT_EQ(value_of(tuning_arguments(input), "--flash-attn"), "on");
  input.config.flash = flash_setting("off");
  EXPECT_EQ(value_of(tuning_arguments(input), "--flash-attn"), "off");
}

TEST(EngineArgs, Case82_InAContainerTheNumberOfThreadsIsNamed) {
  EngineArgsInput input{.container_limit = 2};
  EXPECT_EQ(value_of(tuning_arguments(input), "--threads"), "2");
  input.extra = {{"-t", "6"}};
  EXPECT_THAT(tuning_arguments(input), AllOf(Not(Contains("--threads")), Contains("-t")));
  EXPECT_EQ(value_of(tuning_arguments(input), "-t"), "6");
  input.catalog.threads = 3;
  EXPECT_EQ(value_of(tuning_arguments(input), "--threads"), "3");
}

TEST(EngineArgs, EnginesCase59_AQuotaOfTwoAndAHalfProcessorsIsTwoThreads) {
  system::testing::TestTree tree;
  tree.cpus("0-31").cgroup2("/a").file("sys/fs/cgroup/a/cpu.max", "250000 100000\n");
  const auto cpu = system::read_cpu(tree.root(), [] { return 32; });
  EngineArgsInput input{
      .gpu_backend = true, .available_cpus = cpu.available, .container_limit = cpu.container_limit};
  input.config.n_cpu_moe = 4;  // its experts do not fit the GPU
  EXPECT_EQ(value_of(tuning_arguments(input), "--threads"), "2");
}

TEST(EngineArgs, Case83_OnAGpuFourThreadsAreEnough) {
  EngineArgsInput input{.gpu_backend = true, .available_cpus = 64};
  input.config.n_gpu_layers = kAllLayers;
  EXPECT_EQ(value_of(tuning_arguments(input), "--threads"), "4");
  input.config.n_cpu_moe = 4;
  input.available_cpus = 3;
  input.container_limit = 3;
  EXPECT_EQ(value_of(tuning_arguments(input), "--threads"), "3");
  input.config.threads = 9;
  EXPECT_EQ(value_of(tuning_arguments(input), "--threads"), "9");
  EXPECT_EQ(gpu_resident_threads(2), 2);
  EXPECT_EQ(gpu_resident_threads(std::nullopt), 4);
}

TEST(EngineArgs, Case84_AnExplicitNoToExpertsInRamBindsThePlanner) {
  EngineArgsInput input;
  input.planned = {.gpu_layers = kAllLayers, .n_cpu_moe = 6};
  EXPECT_EQ(value_of(tuning_arguments(input), "--n-cpu-moe"), "6");
  input.config.cpu_moe = false;
  EXPECT_THAT(tuning_arguments(input), AllOf(Not(Contains("--cpu-moe")), Not(Contains("--n-cpu-moe"))));
  input.config.n_cpu_moe = 4;
  EXPECT_EQ(value_of(tuning_arguments(input), "--n-cpu-moe"), "4");
  input.config.cpu_moe = true;
  EXPECT_THAT(tuning_arguments(input), AllOf(Contains("--cpu-moe"), Not(Contains("--n-cpu-moe"))));
}

TEST(EngineArgs, Case85_TheUsersOwnArgumentsComeLast) {
  EngineArgsInput input;
  input.config.n_gpu_layers = 5;
  input.extra = {{"n-gpu-layers", "0"}, {"metrics", true}, {"no-mmap", false}};
  EXPECT_THAT(tuning_arguments(input),
              ElementsAre("--n-gpu-layers", "5", "--cache-reuse", "256", "--n-gpu-layers", "0", "--metrics"));
}

TEST(EngineArgs, TheUserComesBeforeTheCatalogBeforeThePlanner) {
  EngineArgsInput input;
  input.planned.gpu_layers = 7;
  input.catalog = {.cache_reuse = 0, .batch = 1024, .ubatch = 256, .chat_template = "chatml"};
  input.config.batch = 512;
  EXPECT_THAT(tuning_arguments(input), ElementsAre("--n-gpu-layers", "7", "--batch-size", "512",
                                                   "--ubatch-size", "256", "--chat-template", "chatml"));
}

TEST(EngineArgs, DenseFeedForwardInRamNeedsDenseLayers) {
  EngineArgsInput input;
  input.config.n_cpu_ffn = 4;
  EXPECT_EQ(value_of(tuning_arguments(input), "--n-cpu-ffn"), "4");
  EXPECT_THAT(tuning_notes(input), IsEmpty());
  input.dense_ffn = false;
  EXPECT_THAT(tuning_arguments(input), Not(Contains("--n-cpu-ffn")));
  EXPECT_EQ(tuning_notes(input).size(), 1u);
}

TEST(EngineArgs, AModelIsGpuResidentOnlyWhenNothingSpills) {
  EngineArgsInput input{.gpu_backend = true, .resident = gib(8), .kv = gib(2), .fast_budget = gib(10)};
  EXPECT_TRUE(gpu_resident(input));
  for (const auto& spill : std::vector<std::function<void(EngineArgsInput&)>>{
           [](auto& i) { i.gpu_backend = false; }, [](auto& i) { ++i.resident; },
           [](auto& i) { i.config.n_gpu_layers = 10; }, [](auto& i) { i.planned.cpu_moe = true; },
           [](auto& i) { i.config.n_cpu_ffn = 1; }, [](auto& i) { i.extra = {{"threads", "2"}}; }}) {
    EngineArgsInput changed = input;
    spill(changed);
    EXPECT_FALSE(gpu_resident(changed));
  }
  input.extra = {{"--threads", false}};
  EXPECT_TRUE(gpu_resident(input));
}

TEST(EngineArgs, ReasoningFlagsFollowTheBuild) {
  EXPECT_EQ(value_of(tuning_arguments({.reasoning_format = " deepseek \n"}), "--reasoning-format"),
            "deepseek");
  EXPECT_THAT(tuning_arguments({.reasoning_format = "  "}), Not(Contains("--reasoning-format")));
  EXPECT_THAT(tuning_arguments({.reasoning_preserve = true}), Contains("--reasoning-preserve"));
  EXPECT_THAT(tuning_arguments({.build_lists_preserve = true}), Contains("--no-reasoning-preserve"));
}

TEST(EngineArgs, TheServersOwnArgumentsComeInOrder) {
  ServerArgsInput input{.model = "/m/a.gguf",
                        .port = 5000,
                        .slots = 2,
                        .context = 8192,
                        .slot_save_path = "/run/slots",
                        .mlock = true,
                        .prompt_cache = gib(1),
                        .projector = "/m/p.gguf",
                        .reasoning_budget = 512};
  EXPECT_THAT(server_arguments(input),
              ElementsAre("--model", "/m/a.gguf", "--host", "127.0.0.1", "--port", "5000", "--jinja",
                          "--ctx-size", "16384", "--parallel", "2", "--slot-save-path", "/run/slots",
                          "--cache-type-k", "f16", "--cache-type-v", "f16", "--cache-ram", "1024", "--mlock",
                          "--cache-reuse", "256", "--mmproj", "/m/p.gguf", "--reasoning-budget", "512"));
  input.load_mode_flag = true;
  EXPECT_EQ(value_of(server_arguments(input), "--load-mode"), "mlock");
}

TEST(EngineArgs, AReasoningBudgetIsAPositiveNumberOrNothing) {
  EXPECT_EQ(*parse_reasoning_budget(""), std::nullopt);
  EXPECT_EQ(*parse_reasoning_budget("2048"), 2048);
  for (const char* bad : {"0", "-1", "many", "12x", "99999999999", " 1"})
    EXPECT_THAT(parse_reasoning_budget(bad).error().message,
                HasSubstr("GEZEL_LLAMA_REASONING_BUDGET_TOKENS"));
}

}  // namespace
}  // namespace gezel::capacity
