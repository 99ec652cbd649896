#include <malloc.h>

#include "base/bytes.h"
#include "base/heap.h"

namespace gezel {

void keep_no_large_blocks() {
#if defined(__GLIBC__)
  // Setting the two ends their growth.
  ::mallopt(M_MMAP_THRESHOLD, static_cast<int>(kMiB));
  ::mallopt(M_TRIM_THRESHOLD, static_cast<int>(kMiB));
#endif
}

void return_free_memory() {
#if defined(__GLIBC__)
  ::malloc_trim(0);
#endif
}

}  // namespace gezel
