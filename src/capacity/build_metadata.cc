#include "capacity/build_metadata.h"

#include <algorithm>
#include <array>

#include "base/json.h"

namespace gezel::capacity {
namespace {

constexpr auto kGpuBackends = std::to_array<std::string_view>(
    {"cuda", "vulkan", "metal", "rocm", "hip", "sycl", "opencl", "musa", "cann"});

}  // namespace

std::optional<BuildMetadata> parse_build_metadata(std::string_view text) {
  const auto parsed = parse_json(text);
  if (!parsed || !parsed->is_object()) return std::nullopt;
  const json::object& root = parsed->as_object();
  if (int_or(root, "schemaVersion", 0) != 1 || string_or(root, "engine") != "llama-cpp") return std::nullopt;
  BuildMetadata out{.revision = string_or(root, "revision"),
                    .platform = string_or(root, "platform"),
                    .backend = string_or(root, "backend"),
                    .cuda_toolkit = string_or(root, "cudaToolkit")};
  if (out.revision.empty() || out.platform.empty() || out.backend.empty()) return std::nullopt;
  if (const json::array* architectures = array_at(root, "cudaArchitectures")) {
    for (const json::value& value : *architectures) {
      const json::string* name = value.if_string();
      if (!name) return std::nullopt;
      out.cuda_architectures.emplace_back(*name);
    }
  }
  return out;
}

bool is_gpu_backend(std::string_view backend) {
  return std::ranges::any_of(kGpuBackends, [&](std::string_view name) { return backend.starts_with(name); });
}

}  // namespace gezel::capacity
