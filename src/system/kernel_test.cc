#include "system/kernel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "system/process_usage.h"

namespace gezel::system {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(Kernel, ThisOneAnswers) {
  const KernelFacts facts = read_kernel();
  EXPECT_FALSE(facts.release.empty());
  EXPECT_EQ(facts.landlock_abi, landlock_abi());
  EXPECT_EQ(facts.seccomp, seccomp_available());
}

TEST(Kernel, TheSandboxIsFullWithBothMechanisms) {
  EXPECT_EQ(sandbox_status(1, true), "full");
  EXPECT_EQ(sandbox_status(7, true), "full");
}

TEST(Kernel, EveryGapIsNamedWithItsRemedy) {
  EXPECT_THAT(sandbox_status(0, true),
              AllOf(HasSubstr("Landlock"), HasSubstr("Linux 5.13"), Not(HasSubstr("seccomp"))));
  EXPECT_THAT(sandbox_status(7, false),
              AllOf(HasSubstr("CONFIG_SECCOMP_FILTER"), Not(HasSubstr("Landlock"))));
  EXPECT_THAT(sandbox_status(0, false), AllOf(HasSubstr("Landlock"), HasSubstr("seccomp")));
}

TEST(ProcessUsage, CountsMemoryAndDescriptors) {
  const ProcessUsage usage;
  EXPECT_GT(usage.resident_bytes(), kMiB);
  const int before = usage.open_descriptors();
  EXPECT_GE(before, 3);
  const auto pair = socket_pair();
  ASSERT_TRUE(pair);
  EXPECT_EQ(usage.open_descriptors(), before + 2);
}

}  // namespace
}  // namespace gezel::system
