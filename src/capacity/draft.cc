#include "capacity/draft.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace gezel::capacity {
namespace {

constexpr auto kTypes = std::to_array<std::string_view>(
    {"draft-simple", "draft-eagle3", "draft-mtp", "draft-dflash", "draft-dspark", "ngram-simple",
     "ngram-map-k", "ngram-map-k4v", "ngram-mod", "ngram-cache"});

DraftChoice plain(NoteLevel level, std::string why) {
  return {.note = Note{level, std::move(why)}};
}

}  // namespace

DraftChoice choose_draft(const DraftInput& input) {
  const bool by_user = input.configured_type.has_value();
  const std::string type = by_user ? *input.configured_type : input.catalog_type.value_or("");
  if (type.empty() || type == "none") return {};
  if (std::ranges::find(kTypes, type) == kTypes.end())
    return plain(NoteLevel::warn, fmt::format("Drafting is off: the type \"{}\" is not known.", type));
  if (type == "draft-mtp" && !input.target_has_mtp && !input.companion_has_mtp) {
    return plain(NoteLevel::warn,
                 "Drafting is off: neither the model nor its companion file has a "
                 "multi-token-prediction head.");
  }

  DraftChoice out{.type = type};
  out.n_max = input.configured_n_max ? input.configured_n_max : input.catalog_n_max;
  if (!type.starts_with("draft-")) return out;
  const bool by_id = type == "draft-simple" && input.catalog_model_id && !input.configured_path;
  if (by_id && !input.installed_path && !input.companion_path) {
    const std::string missing = fmt::format("the draft model {} is not installed", *input.catalog_model_id);
    if (!by_user) return plain(NoteLevel::info, fmt::format("Drafting is off: {}.", missing));
    out.note = Note{NoteLevel::warn, fmt::format("The launch may fail: {}.", missing)};
  }
  for (const auto* path :
       {&input.configured_path, &input.companion_path, &input.installed_path, &input.catalog_path}) {
    if (*path && out.model_path.empty()) out.model_path = **path;
  }
  return out;
}

}  // namespace gezel::capacity
