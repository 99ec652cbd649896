// Catalog files come from users and from the network. Whatever they hold: no crash, and an item that was read
// keeps the rules that the disk and the network rely on.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "catalog/backend.h"
#include "catalog/grammar.h"
#include "catalog/lint.h"
#include "catalog/parse.h"
#include "catalog/resolve.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace gezel::catalog;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  static_cast<void>(parse_index(text, Kind::chat_model));
  const auto parsed = parse_packed(text);
  if (!parsed) return 0;
  static_cast<void>(lint(parsed->items));
  for (const auto& item : parsed->items) {
    if (!is_catalog_id(item->id) || item->versions.empty()) std::abort();
    const auto* version = latest_version(*item, {});
    if (version == nullptr) continue;
    static_cast<void>(resolved_manifest({item, version, "bundled"}));
    for (const auto backend : {Backend::llama_cpp, Backend::mlx, Backend::ds4, Backend::sd_cpp})
      static_cast<void>(footprint(backend, *item, *version, 65536));
    if (!version->llama_cpp) continue;
    for (const auto& file : version->llama_cpp->files) {
      if (!is_contained_path(file.name) || !is_sha256(file.sha256)) std::abort();
    }
  }
  return 0;
}
