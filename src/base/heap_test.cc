#include "base/heap.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <thread>
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

TEST(Heap, KeepsNoLargeBlocksForAThread) {
#if defined(GEZEL_FOREIGN_ALLOCATOR)
  GTEST_SKIP() << "the sanitizer's allocator decides for itself";
#endif
  keep_no_large_blocks();
  const Bytes before = resident_bytes();
  std::thread([] {
    // The first one freed would raise the size from which blocks are returned to its own.
    for (const Bytes size : {24 * kMiB, 20 * kMiB}) EXPECT_EQ(std::string(size, 'x').back(), 'x');
  }).join();
  EXPECT_LT(resident_bytes(), before + 8 * kMiB);
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
