// engine/backend.h
//
// On what the GGUF engine computes: which backend this machine is made for, and which of the builds that are
// here is started (spec 30 section 4.1). Pure.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace gezel::engine {

enum class Backend { cpu, vulkan, cuda, metal };
std::string_view backend_name(Backend backend);
std::optional<Backend> parse_backend(std::string_view name);

struct BackendHost {
  bool macos = false, arm64 = false;
  bool cuda_driver = false, vulkan_driver = false;  // the driver's library can be loaded
};
// What the machine is made for, whatever builds there are.
Backend detect_backend(const BackendHost& host);

// A build that is not started any more.
struct UnusableBackend {
  Backend backend = Backend::cpu;
  std::string reason;
};
struct BackendChoice {
  Backend backend = Backend::cpu;  // of the build that is started
  std::string reason;              // for people
};
// A wish is final: neither another build nor the quarantine is asked. Without one it is the detected backend,
// or the next of cuda, vulkan, cpu (metal, cpu) that has a usable build. Error `engine-unusable` when there
// is none: it names each with its reason, and the file whose removal tries them again.
Result<BackendChoice> choose_backend(std::optional<Backend> wish, Backend detected,
                                     std::span<const Backend> builds,
                                     std::span<const UnusableBackend> unusable,
                                     std::string_view quarantine_file);

}  // namespace gezel::engine
