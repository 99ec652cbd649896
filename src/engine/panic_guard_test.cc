// Reports of panics as macOS keeps them, in a folder of the test.
#include "engine/panic_guard.h"

#include <gtest/gtest.h>

#include "base/test_folder.h"

namespace gezel::engine {
namespace {

using std::chrono::minutes;

class PanicGuardTest : public testing::Test {
 protected:
  void report(const std::string& name, std::string_view text, minutes age) {
    here.write(name, text);
    std::error_code failed;
    const auto file_now = fs::file_time_type::clock::now();
    fs::last_write_time(here.path() / name, file_now - age, failed);
    EXPECT_FALSE(failed);
  }
  std::optional<GpuPanic> look() const { return recent_gpu_panic(guard, SystemClock().wall_now()); }

  TestFolder here;
  PanicGuard guard{.folders = {here.path() / "missing", here.path()}};
};

// Acceptance case 35.
TEST_F(PanicGuardTest, AReportCountsForAnHour) {
  report("a.ips", "panic(cpu 0): AGXG14G fault", minutes(61));
  EXPECT_FALSE(look());
  report("b.ips", "panic(cpu 0): AGXG14G fault", minutes(59));
  const auto found = look();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->report.filename(), "b.ips");
  EXPECT_EQ(found->mark, "AGXG");
}

TEST_F(PanicGuardTest, OnlyReportsOfPanicsAreRead) {
  report("a.crash", "IOGPUMemory", minutes(1));
  report("b.ips", std::string(kPanicBytes, ' ') + "IOGPUMemory", minutes(1));
  report("c.panic", "watchdog timeout: no checkins from watchdogd", minutes(1));
  EXPECT_FALSE(look());
  report("d.panic", "IOGPUFamily", minutes(1));
  EXPECT_TRUE(look());
}

TEST(PanicGuardMarks, AreTheNamesOfGpuDrivers) {
  for (const char* text : {"x IOGPUMemory y", "IOAccelerator", "AGXAccelerator", "AGXG13X",
                           "completeMemory() prepare count underflow", "IOGPUFamily"})
    EXPECT_NE(gpu_panic_mark(text), "") << text;
  for (const char* text : {"", "AGXG", "AGXGx1", "IOGPU", "prepare count underflow"})
    EXPECT_EQ(gpu_panic_mark(text), "") << text;
}

TEST(PanicGuardSettings, ElsewhereAndSwitchedOffThereIsNothingToLookAt) {
  EXPECT_TRUE(panic_guard(false, "/home/a", "", "").folders.empty());
  EXPECT_TRUE(panic_guard(true, "/home/a", "off", "").folders.empty());
  const auto usual = panic_guard(true, "/Users/a", "", "");
  ASSERT_EQ(usual.folders.size(), 2u);
  EXPECT_EQ(usual.folders[1], "/Users/a/Library/Logs/DiagnosticReports");
  EXPECT_EQ(usual.cooldown, kPanicCooldown);
  EXPECT_EQ(panic_guard(true, "", "", "0.5").cooldown, minutes(30));
  for (const char* wrong : {"0", "-1", "x", "1h", "inf", "1e9"})
    EXPECT_EQ(panic_guard(true, "", "", wrong).cooldown, kPanicCooldown) << wrong;
}

}  // namespace
}  // namespace gezel::engine
