// The program is its own child: main() below hands --self-test-child to the code under test.
#include "calibration/self_test.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "base/json.h"
#include "base/process.h"
#include "calibration/explain.h"
#include "calibration/product.h"

namespace gezel::calibration {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string& own_program() {
  static std::string path;
  return path;
}

// Sets GEZEL_SELF_TEST_BREAK for the children of one test.
class Broken {
 public:
  explicit Broken(const std::string& combination) { setenv("GEZEL_SELF_TEST_BREAK", combination.c_str(), 1); }
  ~Broken() { unsetenv("GEZEL_SELF_TEST_BREAK"); }
  Broken(const Broken&) = delete;
  Broken& operator=(const Broken&) = delete;
};

const SelfTestReport& healthy() {
  static const auto report = run_self_test(own_program());
  if (!report) {
    ADD_FAILURE() << report.error().message;
    std::abort();
  }
  return *report;
}

TEST(SelfTest, EveryCombinationOfThisBuildComputesRight) {
  for (const auto& row : healthy().rows) {
    EXPECT_TRUE(row.ok) << row.backend << "/" << row.buffer_type << "/" << row.type << " x" << row.rows
                        << ": " << row.failure;
  }
  EXPECT_TRUE(healthy().ok());
  EXPECT_THAT(healthy().failing_buffer_types(), IsEmpty());
}

TEST(SelfTest, CoversEveryWeightTypeForOneEightAndSixtyFourRows) {
  std::set<int> counts;
  std::set<std::string> types;
  for (const auto& row : healthy().rows) {
    counts.insert(row.rows);
    if (row.buffer_type == "CPU") types.insert(row.type);
  }
  EXPECT_THAT(counts, ElementsAre(1, 8, 64));
  for (const char* type : {"f32",     "f16",   "bf16",  "q4_0",  "q4_1",   "q5_0",    "q5_1",   "q8_0",
                           "q2_K",    "q3_K",  "q4_K",  "q5_K",  "q6_K",   "iq2_xxs", "iq2_xs", "iq2_s",
                           "iq3_xxs", "iq3_s", "iq1_s", "iq1_m", "iq4_nl", "iq4_xs",  "mxfp4"}) {
    EXPECT_THAT(types, Contains(type));
  }
}

TEST(SelfTest, ErrorsAreFarBelowTheirBounds) {
  for (const auto& row : healthy().rows)
    EXPECT_LT(row.max_error, error_bound(row.type) * 0.7) << row.buffer_type << " " << row.type;
}

TEST(SelfTest, BoundsAreFarBelowWhatAWrongKernelGives) {
  // Two mixed-up rows deviate by about the root mean square itself.
  for (const char* type : {"f32", "f16", "bf16", "q4_0", "unknown"}) EXPECT_LT(error_bound(type), 0.2);
}

TEST(SelfTest, JsonIsATableOfAllRows) {
  const auto value = parse_json(healthy().json());
  ASSERT_TRUE(value);
  const auto& table = value->as_object().at("rows").as_array();
  ASSERT_EQ(table.size(), healthy().rows.size());
  for (const char* key : {"backend", "buffer_type", "type", "rows", "max_error", "micros", "ok"}) {
    EXPECT_TRUE(table[0].as_object().contains(key)) << key;
  }
  EXPECT_TRUE(value->as_object().at("ok").as_bool());
}

TEST(SelfTest, KernelThatDiesIsNamedAndTheOthersAreStillTested) {
  const auto& all = healthy().rows;
  const Broken broken("CPU:q4_1");
  const auto report = run_self_test(own_program());
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_FALSE(report->ok());
  EXPECT_THAT(report->failing_buffer_types(), ElementsAre("CPU:q4_1"));
  const auto failed = std::ranges::find_if(report->rows, [](const auto& row) { return !row.ok; });
  EXPECT_EQ(failed->type, "q4_1");
  EXPECT_THAT(failed->failure, HasSubstr("signal 11"));
  EXPECT_THAT(failed->failure, HasSubstr("clang 19"));
  // One row says what the three of that combination would have said.
  EXPECT_EQ(report->rows.size(), all.size() - 2);
}

TEST(SelfTest, AChildThatDiesLeavesNothingInSharedMemory) {
  const Broken broken("CPU:q4_1");  // after the other one was computed
  const auto child = spawn({.program = own_program(), .args = {"--self-test-child", "CPU/CPU/q8_0", "CPU/CPU/q4_1"}});
  ASSERT_TRUE(child);
  int status = 0;
  ASSERT_EQ(::waitpid(child->pid, &status, 0), child->pid);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_FALSE(std::filesystem::exists(fmt::format("/dev/shm/__KMP_REGISTERED_LIB_{}_{}", child->pid, ::getuid())));
}

TEST(SelfTest, FailingLayoutIsNamedAsAWhole) {
  std::set<std::string> layouts;
  for (const auto& row : healthy().rows) layouts.insert(row.buffer_type);
  layouts.erase("CPU");
  for (const auto& layout : layouts) {
    const auto type = std::ranges::find(healthy().rows, layout, &SelfTestRow::buffer_type)->type;
    const Broken broken(layout + ":" + type);
    const auto report = run_self_test(own_program());
    ASSERT_TRUE(report);
    EXPECT_THAT(report->failing_buffer_types(), ElementsAre(layout));
  }
}

TEST(SelfTest, MissingProgramIsAnError) {
  const auto report = run_self_test("/nonexistent/gezel-engine");
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, "engine-launch");
}

TEST(SelfTest, ProgramThatListsNothingIsAFailedBackend) {
  const auto report = run_self_test("/bin/true");
  ASSERT_TRUE(report);
  EXPECT_FALSE(report->ok());
  EXPECT_EQ(report->rows.size(), 1U);
}

TEST(SelfTest, EmptyReportIsNotOk) {
  EXPECT_FALSE(SelfTestReport{}.ok());
}

TEST(SelfTest, InfiniteErrorIsNullInJson) {
  SelfTestReport report;
  report.rows.push_back(
      {.backend = "CPU", .buffer_type = "AMX", .type = "q4_1", .max_error = INFINITY, .failure = "x"});
  EXPECT_THAT(report.json(), HasSubstr("\"max_error\":null"));
  EXPECT_TRUE(parse_json(report.json()));
}

TEST(Explain, NamesInstructionFamilyAndRemedy) {
  const auto amx = explain_end({.signal = 11}, "AMX", "AVX2");
  EXPECT_THAT(amx, HasSubstr("AMX tile instructions"));
  EXPECT_THAT(amx, HasSubstr("-mno-amx-tile"));
  const auto plain = explain_end({.signal = 4}, "CPU", "AVX2 AVX512");
  EXPECT_THAT(plain, HasSubstr("AVX2 AVX512"));
  EXPECT_THAT(plain, HasSubstr("another processor"));
}

TEST(Combination, TextRoundTrips) {
  const Combination combination{"CPU", "CPU_REPACK", "q4_K"};
  EXPECT_EQ(Combination::parse(combination.text()), combination);
  for (const char* bad : {"", "CPU", "CPU/AMX"}) EXPECT_FALSE(Combination::parse(bad)) << bad;
}

TEST(SelfTestChild, UnknownCombinationIsReportedAndNotRun) {
  for (const Combination& combination :
       {Combination{"NPU", "CPU", "q4_1"}, Combination{"CPU", "HBM3", "q4_1"},
        Combination{"CPU", "CPU", "q8_K"}, Combination{"CPU", "CPU", "nonsense"}}) {
    const auto done = run_products(combination, [](const ProductResult&) { FAIL(); });
    ASSERT_FALSE(done);
    EXPECT_THAT(done.error().message, HasSubstr(combination.text()));
  }
}

}  // namespace
}  // namespace gezel::calibration

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "--self-test-child") {
    return gezel::calibration::self_test_child({argv + 2, argv + argc});
  }
  gezel::calibration::own_program() = std::filesystem::absolute(argv[0]).string();
  ::testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
