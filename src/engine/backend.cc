#include "engine/backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace gezel::engine {
namespace {

struct Named {
  Backend backend;
  std::string_view name;
};
constexpr std::array kNames = {Named{Backend::cpu, "cpu"}, Named{Backend::vulkan, "vulkan"},
                               Named{Backend::cuda, "cuda"}, Named{Backend::metal, "metal"}};

// What is tried after it; nothing after cpu.
std::optional<Backend> next_best(Backend backend) {
  switch (backend) {
    case Backend::cuda:
      return Backend::vulkan;
    case Backend::vulkan:
    case Backend::metal:
      return Backend::cpu;
    case Backend::cpu:
      break;
  }
  return std::nullopt;
}

}  // namespace

std::string_view backend_name(Backend backend) {
  return std::ranges::find(kNames, backend, &Named::backend)->name;
}

std::optional<Backend> parse_backend(std::string_view name) {
  const auto row = std::ranges::find(kNames, name, &Named::name);
  return row == kNames.end() ? std::nullopt : std::optional(row->backend);
}

Backend detect_backend(const BackendHost& host) {
  if (host.macos) return host.arm64 ? Backend::metal : Backend::cpu;
  if (host.cuda_driver) return Backend::cuda;
  return host.vulkan_driver ? Backend::vulkan : Backend::cpu;
}

Result<BackendChoice> choose_backend(std::optional<Backend> wish, Backend detected,
                                     std::span<const Backend> builds,
                                     std::span<const UnusableBackend> unusable,
                                     std::string_view quarantine_file) {
  if (wish) return BackendChoice{*wish, fmt::format("{}, as it was asked for", backend_name(*wish))};
  std::string passed;  // "cuda has no build here; vulkan ..."
  for (std::optional<Backend> at = detected; at; at = next_best(*at)) {
    const auto out = std::ranges::find(unusable, *at, &UnusableBackend::backend);
    const bool built = std::ranges::find(builds, *at) != builds.end();
    if (built && out == unusable.end())
      return BackendChoice{*at, passed.empty() ? fmt::format("{}, as detected", backend_name(*at))
                                               : fmt::format("{}, because {}", backend_name(*at), passed)};
    passed +=
        fmt::format("{}{} {}", passed.empty() ? "" : "; ", backend_name(*at),
                    !built ? "has no build here" : "is disabled after it failed to start: " + out->reason);
  }
  return fail(ErrorKind::unavailable, "engine-unusable",
              fmt::format("No build of the engine can be used: {}. To try again, remove {}.", passed,
                          quarantine_file));
}

}  // namespace gezel::engine
