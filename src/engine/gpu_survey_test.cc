#include "engine/gpu_survey.h"

#include <gtest/gtest.h>

#include "base/test_folder.h"

namespace gezel::engine {
namespace {

constexpr std::string_view kList = "Available devices:\n  CUDA0: NVIDIA A10 (22515 MiB, 22000 MiB free)\n";

class Survey : public testing::Test {
 protected:
  Survey() {
    home.write("bin/gezel-engine", "a build");
    parts = {.home = home.path(),
             .engine_program = home.path() / "bin/gezel-engine",
             .engine_version = "1.0",
             .host = {.cuda_driver = true},
             .total_ram = 32 * kGiB,
             .gpus = {{.vendor = "nvidia", .name = "NVIDIA A10", .address = "0000:01:00.0"}},
             .tools = {.nvidia_smi = "nvidia-smi"},
             .run = [this](const fs::path& program, const std::vector<std::string>& arguments,
                           Millis) -> Result<std::string> {
               ++asked[program.filename().string()];
               if (hangs) return fail(ErrorKind::timeout, "tool_stopped", "it took too long");
               if (program.filename() == "gezel-engine") return std::string(kList);
               if (arguments[0] == "--query-gpu=name,memory.total") return std::string("NVIDIA A10, 23028\n");
               return std::string("0, NVIDIA A10, 8.6, 550.54\n");
             }};
  }
  fs::path kept(const char* file) const { return home.path() / "engines/llama-cpp" / file; }

  TestFolder home;
  GpuSurveyParts parts;
  std::map<std::string, int> asked;
  bool hangs = false;
};

TEST_F(Survey, FindsBackendDevicesAndCards) {
  const auto found = survey_gpus(parts);
  EXPECT_EQ(found.backend, Backend::cuda);
  EXPECT_EQ(found.reason, "the driver library libcuda.so.1 is here");
  EXPECT_EQ(found.vendor, "nvidia");
  ASSERT_EQ(found.devices.size(), 1u);
  EXPECT_EQ(found.devices[0].total_mib, 22'515u);
  EXPECT_FALSE(found.cached);
  EXPECT_EQ(found.nvidia->vram_bytes, 23'028 * kMiB);
  EXPECT_EQ(system::match_card(found.cards, "CUDA0", "NVIDIA A10")->compute_capability, "8.6");
}

TEST_F(Survey, Case13_TheEngineIsAskedAgainWhenBuildMemoryOrHardwareChanged) {
  survey_gpus(parts);
  EXPECT_TRUE(survey_gpus(parts).cached);
  EXPECT_EQ(asked["gezel-engine"], 1);
  home.write("bin/gezel-engine", "another build");
  EXPECT_FALSE(survey_gpus(parts).cached);
  parts.total_ram = 64 * kGiB;
  EXPECT_FALSE(survey_gpus(parts).cached);
  parts.gpus[0].name = "NVIDIA L4";
  EXPECT_FALSE(survey_gpus(parts).cached);
  EXPECT_TRUE(survey_gpus(parts).cached);
  parts.force = true;
  EXPECT_FALSE(survey_gpus(parts).cached);
  EXPECT_EQ(asked["gezel-engine"], 5);
}

TEST_F(Survey, AnEngineThatSaysNothingIsAskedAgain) {
  hangs = true;
  EXPECT_TRUE(survey_gpus(parts).devices.empty());
  EXPECT_FALSE(fs::exists(kept("devices.json")));
  hangs = false;
  EXPECT_EQ(survey_gpus(parts).devices.size(), 1u);
}

TEST_F(Survey, DamagedFilesAreReplaced) {
  for (const char* file : {"backend.json", "devices.json"})
    home.write("engines/llama-cpp/" + std::string(file), "{");
  EXPECT_FALSE(survey_gpus(parts).cached);
  EXPECT_TRUE(survey_gpus(parts).cached);
}

TEST_F(Survey, AFolderThatCannotBeWrittenIsNoFailure) {
  home.write("engines", "a file where a folder should be");
  EXPECT_EQ(survey_gpus(parts).devices.size(), 1u);
}

TEST_F(Survey, WithoutGpuNothingIsAskedAndNothingWritten) {
  parts.gpus.clear();
  parts.host = {.vulkan_driver = true};
  EXPECT_EQ(survey_gpus(parts).backend, Backend::vulkan);
  parts.host = {};
  const auto found = survey_gpus(parts);
  EXPECT_EQ(found.backend, Backend::cpu);
  EXPECT_EQ(found.reason, "no driver library of a GPU is here");
  EXPECT_TRUE(asked.empty());
  EXPECT_FALSE(fs::exists(home.path() / "engines"));
}

TEST(BackendCache, HoldsForItsEngineAndItsDrivers) {
  const BackendHost host{.cuda_driver = true};
  const std::string text = backend_cache_text({.engine_version = "1.0",
                                               .host = host,
                                               .backend = Backend::cuda,
                                               .reason = "r",
                                               .vendor_hint = "nvidia"});
  const auto known = cached_backend(text, "1.0", host);
  ASSERT_TRUE(known);
  EXPECT_EQ(known->backend, Backend::cuda);
  EXPECT_EQ(known->reason, "r");
  EXPECT_EQ(known->vendor_hint, "nvidia");
  EXPECT_FALSE(cached_backend(text, "1.1", host));
  EXPECT_FALSE(cached_backend(text, "1.0", {}));
  EXPECT_FALSE(cached_backend(text, "1.0", {.cuda_driver = true, .vulkan_driver = true}));
  std::string other = text;
  other.replace(other.find("\"probeSchemaVersion\":1"), 22, "\"probeSchemaVersion\":2");
  EXPECT_FALSE(cached_backend(other, "1.0", host));
  for (std::size_t size = 0; size + 2 < text.size(); ++size)
    EXPECT_FALSE(cached_backend(text.substr(0, size), "1.0", host)) << size;
}

TEST(BackendCache, VendorsAreRanked) {
  EXPECT_EQ(vendor_hint({{.vendor = "intel"}, {.vendor = "amd"}}), "amd");
  EXPECT_EQ(vendor_hint({{.vendor = "amd"}, {.vendor = "nvidia"}}), "nvidia");
  EXPECT_EQ(vendor_hint({{.vendor = "apple"}}), "");
}

}  // namespace
}  // namespace gezel::engine
