#include "engine_llama/draft_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "capacity/draft.h"

namespace gezel::engine_llama {
namespace {

bool has_head(const gguf::Metadata& metadata) {
  return metadata.geometry.nextn_predict_layers.value_or(0) > 0;
}

// A path as it is, anything else as an id of the store.
Result<std::vector<fs::path>> files_of(const std::string& name, const FindModel& find) {
  if (name.starts_with('/')) return std::vector<fs::path>{name};
  GEZEL_TRY(auto model, find(name));
  return std::move(model.files);
}

capacity::DraftInput question(const DraftSettings& settings, const models::InstalledModel& model,
                              const gguf::Metadata& metadata, const catalog::LaunchTuning* tuning) {
  capacity::DraftInput out;
  out.configured_type = settings.type;
  if (!settings.model.empty()) {
    out.configured_path = settings.model;
    if (!out.configured_type) out.configured_type = std::string(kDraftSimple);
  }
  out.configured_n_max = settings.most;
  out.target_has_mtp = has_head(metadata);
  if (!model.draft.empty()) {
    out.companion_path = model.draft.string();
    const auto companion = gguf::read_metadata(model.draft);
    out.companion_has_mtp = companion && has_head(*companion);
  }
  if (tuning == nullptr) return out;
  const auto said = [](const std::string& text) { return text.empty() ? std::nullopt : std::optional(text); };
  out.catalog_type = said(tuning->speculation);
  out.catalog_model_id = said(tuning->draft_model);
  if (tuning->draft_tokens)
    out.catalog_n_max = static_cast<int>(std::min<std::int64_t>(*tuning->draft_tokens, 1'024));
  return out;
}

}  // namespace

engine::EngineResult<DraftPlan> plan_draft(const DraftSettings& settings, const models::InstalledModel& model,
                                           const gguf::Metadata& metadata,
                                           const catalog::LaunchTuning* tuning, const FindModel& find) {
  auto asked = question(settings, model, metadata, tuning);
  // Named by id until here, also where it is installed.
  if (asked.catalog_model_id && find(*asked.catalog_model_id)) asked.installed_path = asked.catalog_model_id;
  const auto choice = capacity::choose_draft(asked);
  DraftPlan out;
  out.note = choice.note;
  // Texts are looked up in any case, which is what all "ngram-" types are about.
  if (!choice.type.starts_with("draft-")) return out;
  if (choice.type != kDraftSimple) {
    out.note = capacity::Note{
        capacity::NoteLevel::warn,
        fmt::format("this engine drafts with a whole model ({}), not with {}", kDraftSimple, choice.type)};
    return out;
  }
  out.most = choice.n_max.value_or(0);
  out.required = settings.type.has_value();
  const auto unusable = [&](std::string_view why) -> engine::EngineResult<DraftPlan> {
    if (out.required)
      return std::unexpected(engine::make_error(
          "engine-launch", fmt::format("The model cannot be loaded with its draft model: {}. Correct "
                                       "llamaCppSpecType and --draft-model, or leave both out.",
                                       why)));
    return DraftPlan{.note = capacity::Note{capacity::NoteLevel::warn, std::string(why)}};
  };
  if (choice.model_path.empty()) return unusable("none is named");
  auto files = files_of(choice.model_path, find);
  if (!files) return unusable(files.error().message);
  // Twice the memory for guesses that cost as much as the tokens.
  if (!out.required && std::ranges::find(model.files, files->front()) != model.files.end())
    return DraftPlan{.note = capacity::Note{capacity::NoteLevel::info, "it would be its own draft model"}};
  const auto header = gguf::read_model(files->front());
  if (!header) return unusable(header.error().message);
  out.files = std::move(*files);
  out.bytes = header->file_size_bytes;
  out.geometry = capacity::kv_geometry(*header);
  return out;
}

}  // namespace gezel::engine_llama
