#include "system/vm_stat.h"

#include <gtest/gtest.h>

#include "system/memory.h"

namespace gezel::system {
namespace {

TEST(VmStat, Case7_ReclaimablePagesCount) {
  constexpr const char* kReport =
      "Mach Virtual Memory Statistics: (page size of 16384 bytes)\n"
      "Pages free:                               50000.\nPages active:                            900000.\n"
      "Pages inactive:                          120000.\nPages speculative:                         2000.\n"
      "Pages purgeable:                           8000.\nFile-backed pages:                       300000.\n";
  const auto bytes = parse_vm_stat(kReport);
  ASSERT_EQ(bytes, 7'864'320'000u);
  EXPECT_EQ(available_memory(*bytes, 64 * kGiB, 50'000 * 16'384), 7'864'320'000u);
}

TEST(VmStat, WithoutPageSizeOrPagesNothingIsKnown) {
  for (const char* text :
       {"", "Pages free: 5.\n", "(page size of 4096 bytes)\nPages active: 5.\n",
        "(page size of x bytes)\nPages free: 5.\n", "(page size of 4096)\nPages free: 5.\n"})
    EXPECT_FALSE(parse_vm_stat(text)) << text;
  EXPECT_EQ(parse_vm_stat("(page size of 4096 bytes)\nPages free: 2.\n"), 8192u);
}

}  // namespace
}  // namespace gezel::system
