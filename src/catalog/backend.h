// catalog/backend.h
//
// Which engine runs an item on a host (spec 60 section 5), qualified ids, and what a source weighs in memory
// (section 6). Pure; the rating itself is made elsewhere from these numbers.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "catalog/item.h"

namespace gezel::catalog {

enum class Backend { llama_cpp, mlx, ds4, sd_cpp };
inline constexpr Backend kChatBackends[] = {Backend::llama_cpp, Backend::mlx, Backend::ds4};
std::string_view to_string(Backend backend);  // "llama-cpp"
std::optional<Backend> parse_backend(std::string_view word);

// "<backend>:<id>", split at the first colon, because ids may have colons.
struct QualifiedId {
  Backend backend = Backend::llama_cpp;
  std::string id;
};
std::optional<QualifiedId> parse_qualified_id(std::string_view text);
std::string qualified_id(Backend backend, std::string_view id);

enum class HostSystem { linux, macos, windows };

struct Host {
  HostSystem system = HostSystem::linux;
  bool arm64 = false;
  bool ds4_server = false;  // its program was found
  bool store = false;       // a distribution with nothing but the engines it ships
};

// The platform's preferred engine for models on the device.
Backend preferred_backend(const Host& host);
// Whether the host could run the backend at all.
bool can_run(Backend backend, const Host& host);
// Whether the version has an enabled source for it.
bool has_source(Backend backend, const Version& version);
// The one an item is listed with; nothing: it is not listed as downloadable.
std::optional<Backend> choose_backend(const Version& version, const Host& host);
// Qualified ids of the item that have a source and run on this host, for error messages.
std::vector<std::string> working_ids(const Item& item, const Version& version, const Host& host);

// Memory of the machine as far as it decides the context floor.
struct MachineMemory {
  Bytes total_ram = 0;
  Bytes discrete_vram = 0;  // usable; 0 when there is none, or it is integrated
};
// The context this machine launches with at least: 65536 tokens, or 32768 when memory is short.
std::int64_t context_floor(const MachineMemory& memory);

// Bytes of the loaded weights: measured where the source says so, else estimated. 0 without a source.
Bytes weights_footprint(Backend backend, const Version& version);
// Bytes of the KV cache for that many tokens; 0 when the item does not know.
Bytes kv_footprint(Backend backend, const ChatFacts& chat, std::int64_t context_tokens);
// Both together. A ds4 source scales with the context by itself.
Bytes footprint(Backend backend, const Item& item, const Version& version, std::int64_t context_tokens);
// Whether a ds4 source knows no slope, so that its footprint does not grow with the context.
bool is_flat(Backend backend, const Version& version);

// What a listing says of a model that can be downloaded, section 6.
struct Capabilities {
  bool text = true, tools = false, structured_output = false, images = false, foreground_only = false;
};
Capabilities capabilities_of(Backend backend, const ChatFacts& chat);

// One gate for every surface: curated, open, and not known to be without tools.
bool is_recommendable(const Item& item);
bool media_fits(const ImageFacts& image, Bytes total_ram);

}  // namespace gezel::catalog
