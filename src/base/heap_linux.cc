#include <malloc.h>

#include "base/heap.h"

namespace gezel {

void return_free_memory() {
#if defined(__GLIBC__)
  ::malloc_trim(0);
#endif
}

}  // namespace gezel
