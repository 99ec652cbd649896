#include "llama/devices.h"

#include <fmt/format.h>
#include <ggml-backend.h>

namespace gezel::llama {

std::string device_list() {
  constexpr std::size_t kMib = 1 << 20;
  std::string lines;
  for (std::size_t i = 0; i < ggml_backend_dev_count(); ++i) {
    auto* device = ggml_backend_dev_get(i);
    if (ggml_backend_dev_type(device) == GGML_BACKEND_DEVICE_TYPE_CPU) continue;
    std::size_t free = 0, total = 0;
    ggml_backend_dev_memory(device, &free, &total);
    lines += fmt::format("  {}: {} ({} MiB, {} MiB free)\n", ggml_backend_dev_name(device),
                         ggml_backend_dev_description(device), total / kMib, free / kMib);
  }
  return "Available devices:\n" + (lines.empty() ? "  (none)\n" : lines);
}

}  // namespace gezel::llama
