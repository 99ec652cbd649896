#include <dlfcn.h>

#include <initializer_list>
#include <iterator>

#include "system/gpu_libraries.h"

namespace gezel::system {
namespace {

// The first that opens, left open: drivers do not like to be unloaded, and the process ends soon.
std::vector<GpuHealth> read_first(std::initializer_list<const char*> names,
                                  std::vector<GpuHealth> (*read)(const FindFunction&)) {
  for (const char* name : names) {
    void* library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) continue;
    auto out = read([library](const char* function) { return ::dlsym(library, function); });
    if (!out.empty()) return out;
  }
  return {};
}

}  // namespace

std::vector<GpuHealth> read_gpu_libraries() {
  auto out = read_first({"libnvidia-ml.so.1", "/usr/lib/wsl/lib/libnvidia-ml.so.1"}, read_nvml);
  auto more = read_first(
      {"librocm_smi64.so.7", "librocm_smi64.so.6", "librocm_smi64.so.5", "/opt/rocm/lib/librocm_smi64.so"},
      read_rocm_smi);
  out.insert(out.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  return out;
}

}  // namespace gezel::system
