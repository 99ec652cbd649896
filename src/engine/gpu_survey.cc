#include "engine/gpu_survey.h"

#include <algorithm>
#include <array>

#include "base/json.h"
#include "base/log.h"

namespace gezel::engine {
namespace {

constexpr Bytes kMostCacheBytes = kMiB;

std::string reason_of(Backend backend) {
  switch (backend) {
    case Backend::cuda:
      return "the driver library libcuda.so.1 is here";
    case Backend::vulkan:
      return "the driver library libvulkan.so.1 is here";
    case Backend::metal:
      return "this is an Apple processor";
    case Backend::cpu:
      break;
  }
  return "no driver library of a GPU is here";
}

json::object drivers_json(const BackendHost& host) {
  return {{"cuda", host.cuda_driver}, {"vulkan", host.vulkan_driver}};
}

void keep(const fs::path& file, const std::string& text) {
  Result<> written = make_private_folder(file.parent_path());
  if (written) written = write_file_atomic(file, text);
  if (!written) log_debug("what is known of GPUs could not be kept", {{"reason", written.error().message}});
}

std::optional<system::ProbedBinary> probed(const fs::path& program) {
  std::error_code error;
  const auto size = fs::file_size(program, error);
  if (error) return std::nullopt;
  const auto time = fs::last_write_time(program, error);
  if (error) return std::nullopt;
  return system::ProbedBinary{
      fs::absolute(program, error).string(), size,
      std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count()};
}

void find_backend(const GpuSurveyParts& parts, const fs::path& file, GpuSurvey& out) {
  if (!parts.force) {
    const auto text = read_file(file, kMostCacheBytes);
    if (const auto known = text ? cached_backend(*text, parts.engine_version, parts.host) : std::nullopt) {
      out.backend = known->backend;
      out.reason = known->reason;
      return;
    }
  }
  out.backend = detect_backend(parts.host);
  out.reason = reason_of(out.backend);
  keep(file, backend_cache_text({.engine_version = parts.engine_version,
                                 .host = parts.host,
                                 .backend = out.backend,
                                 .reason = out.reason,
                                 .vendor_hint = out.vendor,
                                 .probed_at = iso_time(parts.now)}));
}

void find_devices(const GpuSurveyParts& parts, const fs::path& file, GpuSurvey& out) {
  const auto binary = probed(parts.engine_program);
  if (!binary) return;
  const std::string hardware = system::hardware_identity(parts.gpus);
  if (!parts.force) {
    const auto text = read_file(file, kMostCacheBytes);
    if (auto known =
            text ? system::cached_devices(*text, *binary, parts.total_ram, hardware) : std::nullopt) {
      out.devices = std::move(*known);
      out.cached = true;
      return;
    }
  }
  out.devices = system::ask_engine_devices(parts.engine_program, parts.run);
  if (const auto text = system::device_cache_text({.devices = out.devices,
                                                   .probed_at = iso_time(parts.now),
                                                   .binary = *binary,
                                                   .system_ram_bytes = parts.total_ram,
                                                   .hardware = hardware}))
    keep(file, *text);
}

}  // namespace

std::string backend_cache_text(const BackendCache& cache) {
  return to_json(json::object{{"probeSchemaVersion", BackendCache::kSchemaVersion},
                              {"engineVersion", cache.engine_version},
                              {"backend", backend_name(cache.backend)},
                              {"reason", cache.reason},
                              {"probedAt", cache.probed_at},
                              {"vendorHint", cache.vendor_hint},
                              {"drivers", drivers_json(cache.host)}}) +
         "\n";
}

std::optional<BackendCache> cached_backend(std::string_view text, std::string_view engine_version,
                                           const BackendHost& host) {
  const auto parsed = parse_json(text);
  if (!parsed || !parsed->is_object()) return std::nullopt;
  const auto& root = parsed->get_object();
  const auto* drivers = object_at(root, "drivers");
  const auto backend = parse_backend(string_or(root, "backend"));
  if (int_or(root, "probeSchemaVersion", 0) != BackendCache::kSchemaVersion || !backend ||
      string_or(root, "engineVersion") != engine_version || drivers == nullptr ||
      *drivers != drivers_json(host))
    return std::nullopt;
  return BackendCache{.engine_version = std::string(engine_version),
                      .host = host,
                      .backend = *backend,
                      .reason = string_or(root, "reason"),
                      .vendor_hint = string_or(root, "vendorHint"),
                      .probed_at = string_or(root, "probedAt")};
}

std::string_view vendor_hint(const std::vector<system::GpuFacts>& gpus) {
  for (const std::string_view vendor : {"nvidia", "amd", "intel"})
    if (std::ranges::find(gpus, vendor, &system::GpuFacts::vendor) != gpus.end()) return vendor;
  return "";
}

GpuSurvey survey_gpus(const GpuSurveyParts& parts) {
  GpuSurvey out;
  out.vendor = vendor_hint(parts.gpus);
  // A Vulkan library alone computes on the processor; CUDA's may be here without a device that the kernel
  // shows (Linux beside Windows).
  if (parts.gpus.empty() && !parts.host.cuda_driver) {
    out.backend = detect_backend(parts.host);
    out.reason = reason_of(out.backend);
    return out;
  }
  const fs::path folder = parts.home / "engines" / "llama-cpp";
  find_backend(parts, folder / "backend.json", out);
  find_devices(parts, folder / "devices.json", out);
  if (out.vendor == "nvidia") {
    out.nvidia = system::ask_nvidia_memory(parts.tools, parts.run);
    if (out.nvidia) out.cards = system::ask_nvidia_cards(parts.tools, parts.run);
  }
  return out;
}

}  // namespace gezel::engine
