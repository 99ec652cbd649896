#include <ctime>

#include "system/thread_time.h"

namespace gezel::system {

double thread_cpu_ms() {
  timespec time{};
  if (::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time) != 0) return 0;
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) / 1e6;
}

}  // namespace gezel::system
