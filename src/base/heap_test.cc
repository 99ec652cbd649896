#include "base/heap.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "base/files.h"

namespace gezel {
namespace {

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define GEZEL_FOREIGN_ALLOCATOR
#endif
#endif

Bytes resident_bytes() {
  const std::string text = read_file("/proc/self/statm").value();
  return std::strtoull(text.c_str() + text.find(' '), nullptr, 10) *
         static_cast<Bytes>(::sysconf(_SC_PAGESIZE));
}

TEST(Heap, GivesBackWhatLiesBetweenBlocksInUse) {
#if defined(GEZEL_FOREIGN_ALLOCATOR)
  GTEST_SKIP() << "the sanitizer's allocator decides for itself";
#endif
  // Blocks too small to be returned one by one, with the last one still in use.
  std::vector<std::string> blocks(2'000);
  for (auto& block : blocks) block.assign(64 * kKiB, 'x');
  const Bytes used = resident_bytes();
  blocks.erase(blocks.begin(), blocks.end() - 1);
  return_free_memory();
  EXPECT_LT(resident_bytes(), used - 60 * kMiB);
  EXPECT_EQ(blocks.front().size(), 64 * kKiB);
}

}  // namespace
}  // namespace gezel
