// capacity/build_metadata.h
//
// What an external llama server was built for: gezel-llama-build.json beside its binary (spec 20
// section 16.4).
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gezel::capacity {

struct BuildMetadata {
  std::string revision, platform, backend;
  std::vector<std::string> cuda_architectures;
  std::string cuda_toolkit;  // "" = does not say
};
// Schema version 1 of the engine "llama-cpp"; anything else says nothing.
std::optional<BuildMetadata> parse_build_metadata(std::string_view text);

// "cuda", "vulkan-1.3", ...: layers may run on a GPU.
bool is_gpu_backend(std::string_view backend);

}  // namespace gezel::capacity
