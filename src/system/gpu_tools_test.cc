// The tools as programs that print what the real ones print, and as programs that misbehave.
#include "system/gpu_tools.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <thread>

#include "base/files.h"
#include "system/test_tree.h"

namespace gezel::system {
namespace {

namespace fs = std::filesystem;
using namespace testing;  // TestTree of this module

const fs::path kPrinted = GEZEL_TESTDATA "/system/gpu";

class Tools : public ::testing::Test {
 protected:
  // A program that does `script`.
  fs::path program(const std::string& name, const std::string& script) {
    tree.file("tools/" + name, "#!/bin/sh\n" + script + "\n");
    const fs::path path = tree.root() / "tools" / name;
    fs::permissions(path, fs::perms::owner_all);
    return path;
  }
  // nvidia-smi as it answers the questions that are asked of it, and fails on others.
  fs::path nvidia_smi() {
    return program("nvidia-smi", fmt::format(R"(
case "$*" in
  "--query-gpu=name,memory.total --format=csv,noheader,nounits") cat {0}/nvidia_memory.txt ;;
  "--query-gpu=index,name,compute_cap,driver_version --format=csv,noheader") cat {0}/nvidia_cards.txt ;;
  "--query-compute-apps=pid,process_name,used_gpu_memory --format=csv,noheader,nounits") cat {0}/nvidia_users.txt ;;
  "--query-gpu=index,name,temperature.gpu,"*) cat {0}/nvidia_health.txt ;;
  *) exit 6 ;;
esac)",
                                             kPrinted.string()));
  }
  std::string cat(const std::string& file) { return fmt::format("cat {}/{}", kPrinted.string(), file); }
  static GpuFacts gpu(std::string vendor) { return {.vendor = std::move(vendor)}; }
  std::vector<GpuHealth> health(const std::string& vendor, const GpuTools& tools) {
    return read_gpu_health({gpu(vendor)}, tools, run_gpu_tool, tree.root());
  }

  TestTree tree;
};

TEST_F(Tools, NvidiasAnswersEveryQuestion) {
  const GpuTools tools{.nvidia_smi = nvidia_smi()};
  const auto memory = ask_nvidia_memory(tools);
  ASSERT_TRUE(memory);
  EXPECT_EQ(memory->vram_bytes, (24'564 + 12'288) * kMiB);
  EXPECT_EQ(memory->devices, 2);
  const auto cards = ask_nvidia_cards(tools);
  ASSERT_EQ(cards.size(), 2u);
  EXPECT_EQ(cards[1].compute_capability, "8.6");
  EXPECT_EQ(cards[0].driver, "550.54.14");
  const auto state = health("nvidia", tools);
  ASSERT_EQ(state.size(), 2u);
  EXPECT_EQ(state[1].temperature_c, 81);
  EXPECT_TRUE(state[1].thermal_slowdown);
}

TEST_F(Tools, WhoHoldsMemoryOfAGpuIsSummedAndLabelled) {
  const auto users = ask_gpu_users({.nvidia_smi = nvidia_smi()});
  ASSERT_EQ(users.size(), 4u);
  EXPECT_EQ(users[0].bytes, (5'032 + 1'024) * kMiB);
  EXPECT_EQ(users[1].bytes, std::nullopt) << "unknown, never 0";
  const std::int64_t own[] = {5120};
  std::string labels;
  for (const auto& user : users) labels += fmt::format("{} ", gpu_user_label(gpu_user_kind(user, own)));
  EXPECT_EQ(labels, "machine-engine external development-engine gezel-engine ");
}

TEST_F(Tools, AServerOfAnotherApplicationIsToldApart) {
  const auto label = [](const char* program) {
    return gpu_user_label(gpu_user_kind({.pid = 7, .program = program}, {}));
  };
  EXPECT_EQ(label("/Applications/Chat.app/Contents/Resources/llama-server"), "app-engine");
  EXPECT_EQ(label("/opt/chat/resources/bin/ollama"), "app-engine");
  EXPECT_EQ(label("/usr/bin/ollama"), "machine-engine");
  EXPECT_EQ(label("/home/ada/.local/bin/gezel-engine"), "development-engine") << "not one of this service";
  EXPECT_EQ(label("ollama.exe"), "development-engine");
  EXPECT_EQ(label("/usr/bin/blender"), "external");
}

TEST_F(Tools, AToolThatFailsSaysNothing) {
  const GpuTools failed{.nvidia_smi = program("a", cat("nvidia_failed.txt") + "; exit 9")};
  EXPECT_FALSE(ask_nvidia_memory(failed));
  EXPECT_TRUE(health("nvidia", failed).empty());
  const GpuTools lies{.nvidia_smi = program("b", cat("nvidia_failed.txt"))};
  EXPECT_FALSE(ask_nvidia_memory(lies)) << "also when it claims success";
  EXPECT_TRUE(ask_nvidia_cards(lies).empty());
  EXPECT_TRUE(ask_gpu_users(lies).empty());
  const GpuTools gone{.nvidia_smi = tree.root() / "tools/nowhere"};
  EXPECT_FALSE(ask_nvidia_memory(gone));
  EXPECT_FALSE(ask_nvidia_memory({}));
}

TEST_F(Tools, Case9_AProgramThatHangsOrPrintsWithoutEndIsStopped) {
  const auto hurried = [](const fs::path& tool, const std::vector<std::string>& arguments, Millis) {
    return run_gpu_tool(tool, arguments, Millis(50));
  };
  const auto hangs = program("hangs", cat("list_devices.txt") + "; exec sleep 1000");
  EXPECT_TRUE(ask_engine_devices(hangs, hurried).empty());
  const auto floods = program("floods", "exec yes '  Vulkan0: A card (1024 MiB, 1024 MiB free)'");
  EXPECT_TRUE(ask_engine_devices(floods).empty());
}

TEST_F(Tools, OneThatHangsEndsWithTheService) {
  std::stop_source service;
  const auto run = gpu_tool_runner(service.get_token());
  const auto hangs = program("hangs", "exec sleep 1000");
  const std::jthread ending([&] { service.request_stop(); });
  EXPECT_TRUE(ask_engine_devices(hangs, run).empty());
  const auto never = program("never", "touch " + (tree.root() / "was-started").string());
  EXPECT_TRUE(ask_engine_devices(never, run).empty());
  EXPECT_FALSE(fs::exists(tree.root() / "was-started"));
}

TEST_F(Tools, TheQuestionsHaveTheirTimes) {
  std::vector<Millis> limits;
  const ToolRunner noted = [&](const fs::path&, const std::vector<std::string>&, Millis limit) {
    limits.push_back(limit);
    return Result<std::string>("");
  };
  ask_nvidia_memory({.nvidia_smi = "x"}, noted);
  ask_nvidia_cards({.nvidia_smi = "x"}, noted);
  ask_engine_devices("x", noted);
  read_gpu_health({gpu("nvidia")}, {.nvidia_smi = "x"}, noted, tree.root());
  EXPECT_EQ(limits, (std::vector{Millis(2'000), Millis(5'000), Millis(20'000), Millis(5'000)}));
}

TEST_F(Tools, AnEnginesListIsReadBetweenItsOtherLines) {
  const auto devices = ask_engine_devices(
      program("engine", "[ \"$*\" = --list-devices ] || exit 2\n" + cat("list_devices.txt")));
  ASSERT_EQ(devices.size(), 3u);
  EXPECT_EQ(devices[0].id, "Vulkan0");
  EXPECT_EQ(devices[0].total_mib, 16'368u);
  EXPECT_EQ(best_device(devices)->id, "Vulkan0") << "a shared heap does not hide the card";
}

TEST_F(Tools, AmdsToolIsReadInBothLayouts) {
  const auto six = health("amd", {.amd_smi = program("six", cat("amd_smi_6.json"))});
  ASSERT_EQ(six.size(), 2u);
  EXPECT_EQ(six[0].temperature_c, 60) << "the hottest place";
  EXPECT_EQ(six[0].utilization_percent, 42);
  EXPECT_EQ(six[0].memory_used, 14'569 * kMiB);
  EXPECT_FALSE(six[0].thermal_slowdown) << "a limit of power is normal work";
  EXPECT_EQ(six[1].temperature_c, std::nullopt);
  EXPECT_EQ(six[1].memory_total, 512 * kMiB);
  EXPECT_EQ(six[1].memory_used, std::nullopt);
  const auto seven = health("amd", {.amd_smi = program("seven", cat("amd_smi_7.json"))});
  ASSERT_EQ(seven.size(), 1u);
  EXPECT_EQ(seven[0].temperature_c, 97);
  EXPECT_TRUE(seven[0].thermal_slowdown);
}

TEST_F(Tools, TheOlderToolOfAmdIsAskedWhereTheNewerSaysNothing) {
  const auto older = program("rocm-smi", cat("rocm_smi.json"));
  for (const auto& newer : {fs::path(), program("x", "exit 1"), program("y", "echo '[{]'")}) {
    const auto gpus = health("amd", {.amd_smi = newer, .rocm_smi = older});
    ASSERT_EQ(gpus.size(), 2u);
    EXPECT_EQ(gpus[0].id, "0000:03:00.0");
    EXPECT_EQ(gpus[0].name, "AMD Radeon RX 7800 XT");
    EXPECT_EQ(gpus[0].temperature_c, 61);
    EXPECT_EQ(gpus[0].memory_total, 17'163'091'968u);
    EXPECT_EQ(gpus[1].id, "1");
    EXPECT_EQ(gpus[1].temperature_c, std::nullopt);
  }
}

TEST_F(Tools, TheKernelsSensorsAreAskedBeforeAnyToolOfAmd) {
  const std::string device = "sys/devices/pci0000:00/0000:03:00.0/";
  tree.file(device + "vendor", "0x1002\n").file(device + "hwmon/hwmon4/temp1_input", "45000\n");
  tree.link("sys/class/drm/card0/device", "../../../devices/pci0000:00/0000:03:00.0");
  const auto gpus = health("amd", {.amd_smi = program("amd-smi", cat("amd_smi_6.json"))});
  ASSERT_EQ(gpus.size(), 1u);
  EXPECT_EQ(gpus[0].temperature_c, 45);
}

TEST_F(Tools, TheDriversLibraryIsAskedBeforeItsTool) {
  const auto engine = program("gezel-engine", R"([ "$*" = --gpu-health ] || exit 2
echo '{"schemaVersion":1,"devices":[{"vendor":"nvidia","id":"0","temperatureC":55},{"vendor":"amd","id":"1"}]}')");
  const auto told = health("nvidia", {.nvidia_smi = nvidia_smi(), .engine = engine});
  ASSERT_EQ(told.size(), 1u) << "what is not here is not taken";
  EXPECT_EQ(told[0].temperature_c, 55);
  const auto silent = program("silent", "exit 1");
  EXPECT_EQ(health("nvidia", {.nvidia_smi = nvidia_smi(), .engine = silent}).size(), 2u) << "then the tool";
}

TEST_F(Tools, AHelperOfTheUsersCountsMoreThanAllOthers) {
  const auto helper = program("helper", R"([ "$*" = "sample --json" ] || exit 2
echo '{"schemaVersion":1,"devices":[{"vendor":"generic","id":"x","temperatureC":99}]}')");
  const auto told = health("nvidia", {.nvidia_smi = nvidia_smi(), .helper = helper});
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].temperature_c, 99);
  const auto older = program("older", R"(echo '{"schemaVersion":0,"devices":[]}')");
  EXPECT_EQ(health("nvidia", {.nvidia_smi = nvidia_smi(), .helper = older}).size(), 2u);
}

TEST_F(Tools, NoToolIsAskedOfAVendorThatIsNotHere) {
  bool asked = false;
  const ToolRunner noted = [&](const fs::path&, const std::vector<std::string>&, Millis) {
    asked = true;
    return Result<std::string>("");
  };
  EXPECT_TRUE(read_gpu_health({gpu("intel")}, {"a", "b", "c"}, noted, tree.root()).empty());
  EXPECT_FALSE(asked);
}

TEST_F(Tools, AreLookedForInTheFoldersOfTheMachine) {
  EXPECT_TRUE(find_gpu_tools(tree.root()).nvidia_smi.empty());
  tree.file("usr/lib/wsl/lib/nvidia-smi", "")
      .file("opt/rocm/bin/rocm-smi", "")
      .file("home/ada/bin/amd-smi", "");
  const auto tools = find_gpu_tools(tree.root());
  EXPECT_EQ(tools.nvidia_smi, tree.root() / "usr/lib/wsl/lib/nvidia-smi");
  EXPECT_EQ(tools.rocm_smi, tree.root() / "opt/rocm/bin/rocm-smi");
  EXPECT_TRUE(tools.amd_smi.empty());
}

TEST(AmdTools, AnyCutOfAnAnswerIsReadOrNotButNeverWrongly) {
  for (const char* file : {"amd_smi_6.json", "amd_smi_7.json", "rocm_smi.json"}) {
    const std::string text = read_file(kPrinted / file).value();
    for (std::size_t size = 0; size + 3 < text.size(); size += 7) {
      for (const auto& gpus : {parse_amd_smi(text.substr(0, size)), parse_rocm_smi(text.substr(0, size))})
        EXPECT_TRUE(gpus.empty()) << file << " " << size;
    }
  }
}

}  // namespace
}  // namespace gezel::system
