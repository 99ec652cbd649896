#include <sys/mman.h>

#include "base/pages.h"

namespace gezel {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kLargestBlock = std::size_t{1} << 39;  // more is a mistake in a calculation

}  // namespace

void* allocate_pages(std::size_t size) {
  if (size > kLargestBlock) throw std::bad_alloc();
  void* block = std::aligned_alloc(kHugePage, (size + kHugePage - 1) / kHugePage * kHugePage);
  if (block == nullptr) throw std::bad_alloc();
  // Only whole huge pages: the rest of a last one would be memory that nobody counts. Where there are none
  // this does nothing.
  if (size >= kHugePage) ::madvise(block, size / kHugePage * kHugePage, MADV_HUGEPAGE);
  return block;
}

void free_pages(void* block) {
  std::free(block);
}

}  // namespace gezel
