#include "cli/doctor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gezel::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

MachineFacts machine() {
  return {.cpu = {.online = 8,
                  .available = 2,
                  .container_limit = 2,
                  .model = "Fast CPU",
                  .features = {"amx_int8", "avx2"}},
          .memory = {.physical = 32 * kGiB, .total = 8 * kGiB, .available = 6 * kGiB, .limited = true},
          .kernel = {.release = "6.1.0", .landlock_abi = 2, .seccomp = true},
          .disk_free = 100 * kGiB};
}

const Finding* find(const Findings& findings, std::string_view subject) {
  for (const Finding& finding : findings) {
    if (finding.subject == subject) return &finding;
  }
  return nullptr;
}

json::object engine(json::array backends, std::string_view version = "1.0") {
  return {{"version", version}, {"libllama", "libllama 1"}, {"backends", std::move(backends)}};
}

TEST(Doctor, SaysWhatTheMachineHasAndWhoLimitsIt) {
  const Findings findings = judge_machine(machine());
  EXPECT_EQ(find(findings, "processor")->detail,
            "Fast CPU, 2 of 8 logical cores for us (limited by the container)");
  EXPECT_EQ(find(findings, "memory")->detail,
            "6.0 GiB free of 8.0 GiB (limited by the container; the machine has 32.0 GiB)");
  EXPECT_TRUE(all_well(findings));
}

TEST(Doctor, LittleMemoryAndDiskAreWarningsWithRemedies) {
  MachineFacts facts = machine();
  facts.memory.available = 100 * kMiB;
  facts.disk_free = kGiB;
  const Findings findings = judge_machine(facts);
  for (const char* subject : {"memory", "disk"}) {
    EXPECT_EQ(find(findings, subject)->verdict, Verdict::warning);
    EXPECT_NE(find(findings, subject)->remedy, "");
  }
}

TEST(Doctor, AGpuWithoutADriverNamesThePackage) {
  MachineFacts facts = machine();
  facts.gpus.push_back({.vendor = "nvidia", .name = "nvidia 0x2204"});
  EXPECT_EQ(find(judge_machine(facts), "graphics")->remedy, "apt-get install nvidia-driver");
}

TEST(Doctor, AGpuTheEngineCannotUseIsSaid) {
  MachineFacts facts = machine();
  facts.gpus.push_back({.vendor = "nvidia", .name = "H200", .driver = "nvidia", .device_file = true});
  EXPECT_THAT(find(judge_engine(engine({"CPU: AVX2"}), "1.0", facts), "accelerator")->remedy,
              HasSubstr("GGML_CUDA=ON"));
  EXPECT_EQ(
      find(judge_engine(engine({"CPU: AVX2", "CUDA0: NVIDIA H200"}), "1.0", facts), "accelerator")->verdict,
      Verdict::good);
}

TEST(Doctor, ComparesProcessorFeaturesWithTheEngines) {
  const Findings findings = judge_engine(engine({"CPU: SSE3 AVX2 LLAMAFILE"}), "1.0", machine());
  EXPECT_EQ(find(findings, "processor features")->detail, "uses AVX2");
  EXPECT_THAT(find(findings, "unused features")->detail, HasSubstr("AMX_INT8"));
  EXPECT_TRUE(all_well(findings));
  EXPECT_FALSE(all_well(judge_engine(engine({"CPU: AVX2 AVX512"}), "1.0", machine())));
}

TEST(Doctor, AnEngineOfAnotherBuildIsAFailure) {
  const Findings findings = judge_engine(engine({"CPU: AVX2"}, "0.9"), "1.0", machine());
  EXPECT_EQ(find(findings, "program")->verdict, Verdict::failure);
  EXPECT_THAT(find(findings, "program")->remedy, HasSubstr("make build"));
}

TEST(Doctor, SelfTestNamesWhatIsNotUsed) {
  const json::object good{
      {"backend", "CPU"}, {"buffer_type", "CPU"}, {"type", "q4_1"}, {"rows", 1}, {"ok", true}};
  const json::object bad{{"backend", "CPU"}, {"buffer_type", "AMX"},
                         {"type", "q4_0"},   {"rows", 8},
                         {"ok", false},      {"failure", "signal 11 (Segmentation fault)"}};
  EXPECT_EQ(judge_self_test({{"rows", json::array{good, good}}}).front().detail, "2 computations are right");
  const Findings findings = judge_self_test({{"rows", json::array{good, bad, bad}}});
  EXPECT_EQ(findings.front().verdict, Verdict::warning);
  EXPECT_THAT(findings.front().detail,
              AllOf(HasSubstr("CPU AMX"), HasSubstr("q4_0 with 8 rows: signal 11"), HasSubstr("and 1 more")));
  EXPECT_FALSE(all_well(judge_self_test({{"rows", json::array{bad}}})));
  EXPECT_FALSE(all_well(judge_self_test({{"exit_status", 139}})));
}

TEST(Doctor, AMissingSandboxIsAWarningWithTheBootOption) {
  EXPECT_EQ(judge_sandbox(machine().kernel).front().verdict, Verdict::good);
  const Findings findings = judge_sandbox({.release = "5.10", .landlock_abi = 0, .seccomp = true});
  EXPECT_EQ(findings.front().verdict, Verdict::warning);
  EXPECT_THAT(findings.front().remedy, AllOf(HasSubstr("lsm=landlock"), Not(HasSubstr("SECCOMP"))));
}

TEST(Doctor, EveryGapOfTheSandboxHasItsRemedy) {
  const auto remedy = judge_sandbox({.release = "5.10", .landlock_abi = 0, .seccomp = false}).front().remedy;
  EXPECT_THAT(remedy, AllOf(HasSubstr("lsm=landlock"), HasSubstr("CONFIG_SECCOMP_FILTER=y")));
}

TEST(Doctor, SteppingBackForOtherProgramsIsANoteWithItsReason) {
  const auto judge = [](std::string_view text) { return judge_neighbour(parse_json(text)->as_object()); };
  EXPECT_EQ(judge(R"({"models":[],"neighbour":{"mode":"off"}})").front().verdict, Verdict::good);
  const Findings yielding = judge(
      R"({"models":[],"neighbour":{"mode":"auto","state":"yielding","since":"2026-01-01","others_cpu":0.75}})");
  EXPECT_EQ(yielding.front().verdict, Verdict::note);
  EXPECT_THAT(yielding.front().detail, HasSubstr("75 %"));
  const Findings kept = judge(
      R"({"models":[{"id":"a","nice":10}],"neighbour":{"mode":"auto","state":"normal","others_cpu":null}})");
  ASSERT_EQ(kept.size(), 2u);
  EXPECT_THAT(kept.front().detail, HasSubstr("unknown"));
  EXPECT_THAT(kept.back().detail, HasSubstr("a keeps a low priority"));
  EXPECT_TRUE(judge("{}").empty());
}

TEST(Doctor, TheBackendSaysWhyItIsTheOne) {
  EXPECT_EQ(judge_backend(engine::BackendChoice{engine::Backend::cpu, "cpu, as detected"}).front().detail,
            "cpu, as detected");
  const Result<engine::BackendChoice> wrong = fail(ErrorKind::invalid, "engine-unusable", "not built");
  EXPECT_EQ(judge_backend(wrong).front().verdict, Verdict::failure);
}

TEST(Doctor, DevicesOfTheEngineAreNamedWithTheirDriver) {
  engine::GpuSurvey survey;
  EXPECT_TRUE(judge_survey(survey).empty());
  survey.devices = {{.id = "CUDA0", .name = "NVIDIA A10", .total_mib = 22'528}};
  EXPECT_EQ(judge_survey(survey).front().detail, "NVIDIA A10 with 22.0 GiB");
  survey.cards = {{.index = "0", .name = "NVIDIA A10", .compute_capability = "8.6", .driver = "550.54"}};
  EXPECT_EQ(judge_survey(survey).front().detail,
            "NVIDIA A10 with 22.0 GiB, driver 550.54, compute capability 8.6");
}

TEST(Doctor, RendersAreasAndRemedies) {
  EXPECT_EQ(render_findings({{"machine", "memory", Verdict::good, "fine", ""},
                             {"engine", "program", Verdict::failure, "gone", "make build"}},
                            false),
            "machine\n  ok  memory   fine\n\nengine\n  XX  program  gone\n               -> make build\n");
}

TEST(Doctor, JsonHasOneEntryPerFinding) {
  EXPECT_EQ(
      to_json(findings_json({{"a", "b", Verdict::note, "c", ""}})),
      R"({"ok":true,"findings":[{"area":"a","subject":"b","verdict":"note","detail":"c","remedy":null}]})");
}

}  // namespace
}  // namespace gezel::cli
