#include "catalog/backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace gezel::catalog {
namespace {

constexpr Bytes kGgufFixed = 256 * kMiB;
constexpr Bytes kProjectorFixed = 384 * kMiB;
constexpr Bytes kMlxFixed = 1024 * kMiB;
constexpr Bytes kDs4Most = 48 * kGiB;
constexpr double kQuantizedKv = 0.55;

// size * percent / 100, rounded to the nearest: in integers, so that every machine gets the same.
Bytes percent(Bytes size, Bytes per_cent) {
  return (size * per_cent + 50) / 100;
}

bool mlx_usable(const Version& version) {
  return version.mlx && version.mlx->disabled_reason.empty();
}

bool is_apple(const Host& host) {
  return host.system == HostSystem::macos && host.arm64;
}

}  // namespace

std::string_view to_string(Backend backend) {
  switch (backend) {
    case Backend::llama_cpp:
      return "llama-cpp";
    case Backend::mlx:
      return "mlx";
    case Backend::ds4:
      return "ds4";
    case Backend::sd_cpp:
      return "sd-cpp";
  }
  return {};
}

std::optional<Backend> parse_backend(std::string_view word) {
  for (const auto backend : {Backend::llama_cpp, Backend::mlx, Backend::ds4, Backend::sd_cpp}) {
    if (word == to_string(backend)) return backend;
  }
  return std::nullopt;
}

std::optional<QualifiedId> parse_qualified_id(std::string_view text) {
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos || colon + 1 == text.size()) return std::nullopt;
  const auto backend = parse_backend(text.substr(0, colon));
  if (!backend) return std::nullopt;
  return QualifiedId{*backend, std::string(text.substr(colon + 1))};
}

std::string qualified_id(Backend backend, std::string_view id) {
  return fmt::format("{}:{}", to_string(backend), id);
}

Backend preferred_backend(const Host& host) {
  return is_apple(host) ? Backend::mlx : Backend::llama_cpp;
}

bool can_run(Backend backend, const Host& host) {
  switch (backend) {
    case Backend::llama_cpp:
    case Backend::sd_cpp:
      return true;
    case Backend::mlx:
      return is_apple(host) && !host.store;
    case Backend::ds4:
      return host.ds4_server && host.system != HostSystem::windows;
  }
  return false;
}

bool has_source(Backend backend, const Version& version) {
  switch (backend) {
    case Backend::llama_cpp:
      return version.llama_cpp.has_value();
    case Backend::mlx:
      return mlx_usable(version);
    case Backend::ds4:
      return version.ds4.has_value();
    case Backend::sd_cpp:
      return version.media.has_value();
  }
  return false;
}

std::optional<Backend> choose_backend(const Version& version, const Host& host) {
  if (version.media) return Backend::sd_cpp;
  const bool ds4 = version.ds4 && can_run(Backend::ds4, host);
  if (!host.store) {
    if (preferred_backend(host) == Backend::mlx && mlx_usable(version)) return Backend::mlx;
    if (version.llama_cpp) return Backend::llama_cpp;
    if (mlx_usable(version) && host.system == HostSystem::macos) return Backend::mlx;
  } else if (version.llama_cpp) {
    return Backend::llama_cpp;
  }
  return ds4 ? std::optional(Backend::ds4) : std::nullopt;
}

std::vector<std::string> working_ids(const Item& item, const Version& version, const Host& host) {
  std::vector<std::string> out;
  for (const auto backend : kChatBackends) {
    if (has_source(backend, version) && can_run(backend, host)) out.push_back(qualified_id(backend, item.id));
  }
  return out;
}

std::int64_t context_floor(const MachineMemory& memory) {
  const bool constrained =
      memory.discrete_vram > 0 ? memory.discrete_vram <= 8 * kGiB : memory.total_ram <= 16 * kGiB;
  return constrained ? 32768 : 65536;
}

Bytes weights_footprint(Backend backend, const Version& version) {
  if (backend == Backend::llama_cpp && version.llama_cpp) {
    const GgufSource& source = *version.llama_cpp;
    if (source.resident_bytes) return *source.resident_bytes;
    const Bytes projector = source.projector ? source.projector->size_bytes : 0;
    return percent(source.size_bytes + projector, 110) + kGgufFixed + (projector > 0 ? kProjectorFixed : 0);
  }
  if (backend == Backend::mlx && version.mlx)
    return version.mlx->resident_bytes.value_or(percent(version.mlx->size_bytes, 102) + kMlxFixed);
  if (backend == Backend::ds4 && version.ds4)
    return version.ds4->gguf.resident_bytes.value_or(std::min(version.ds4->gguf.size_bytes, kDs4Most));
  return 0;
}

Bytes kv_footprint(Backend backend, const ChatFacts& chat, std::int64_t context_tokens) {
  if (!chat.kv_bytes_per_token_f16) return 0;
  // Caches of GGUF engines are quantized by default.
  const double scale = backend == Backend::mlx ? 1.0 : kQuantizedKv;
  const double bytes =
      *chat.kv_bytes_per_token_f16 * static_cast<double>(context_tokens) + chat.kv_fixed_bytes_f16;
  return static_cast<Bytes>(std::llround(bytes * scale));
}

bool is_flat(Backend backend, const Version& version) {
  return backend == Backend::ds4 && version.ds4 && !version.ds4->kv_bytes_per_token;
}

Bytes footprint(Backend backend, const Item& item, const Version& version, std::int64_t context_tokens) {
  const Bytes weights = weights_footprint(backend, version);
  if (backend != Backend::ds4)
    return weights + (item.chat ? kv_footprint(backend, *item.chat, context_tokens) : 0);
  if (!version.ds4 || !version.ds4->kv_bytes_per_token || !version.ds4->gguf.resident_bytes) return weights;
  const double more = *version.ds4->kv_bytes_per_token *
                      static_cast<double>(context_tokens - version.ds4->resident_context_tokens);
  return static_cast<Bytes>(std::max(0LL, static_cast<long long>(weights) + std::llround(more)));
}

Capabilities capabilities_of(Backend backend, const ChatFacts& chat) {
  Capabilities out;
  out.tools = chat.supports_tools;
  out.structured_output = backend == Backend::llama_cpp || backend == Backend::mlx;
  return out;
}

bool is_recommendable(const Item& item) {
  return item.reco_score > 0 && item.license_class == LicenseClass::open &&
         (!item.chat || item.chat->supports_tools);
}

bool media_fits(const ImageFacts& image, Bytes total_ram) {
  return static_cast<double>(total_ram) >= image.min_ram_gib * static_cast<double>(kGiB);
}

}  // namespace gezel::catalog
