// One row a setting: how it is read, why it may not hold, and what it does to a plan.
#include "engine_llama/launch_tuning.h"

#include <algorithm>
#include <array>

namespace gezel::engine_llama {
namespace {

using catalog::LaunchTuning;

constexpr std::int64_t kMostThreads = 512;  // of one model, as libllama has it

constexpr std::string_view kProcessorOnly = "this engine computes every layer on the processor";
constexpr std::string_view kPieces =
    "prompts are computed in pieces of a fixed size, for which memory is planned";
constexpr std::string_view kOwnLookup =
    "this engine looks texts up by itself and drafts with nothing but a whole model (draft-simple)";
constexpr std::string_view kNoDraftModel = "no draft model is used";
constexpr std::string_view kOff = "speculation is switched off";
constexpr std::string_view kYours = "what the service was started with counts more";

template <class T>
json::value value_of(const std::optional<T>& value) {
  return value ? json::value(*value) : json::value();
}
json::value value_of(const std::string& text) {
  return text.empty() ? json::value() : json::value(text);
}

struct Row {
  std::string_view setting;
  json::value (*read)(const LaunchTuning&);                                  // null: the entry does not say
  std::string_view (*ignored)(const LaunchTuning&, const EmbeddedOptions&);  // "": it holds
  void (*apply)(const LaunchTuning&, LaunchPlan&) = nullptr;                 // unset: it is so anyway
};

template <const std::string_view& kReason>
std::string_view always(const LaunchTuning&, const EmbeddedOptions&) {
  return kReason;
}

// Of the settings of a draft model; plan_draft() uses them.
std::string_view draft_ignored(const LaunchTuning& t, const EmbeddedOptions& options) {
  if (!options.speculation) return kOff;
  if (options.draft.any()) return kYours;
  return t.speculation == kDraftSimple ? std::string_view() : kNoDraftModel;
}

constexpr std::string_view kOwnReuse = "prefixes of any length are found and reused by this engine itself";
constexpr std::string_view kCapability = "it says what the model can do and switches nothing on";

constexpr auto kRows = std::to_array<Row>({
    {"nGpuLayers", [](const LaunchTuning& t) { return value_of(t.gpu_layers); }, always<kProcessorOnly>},
    {"cpuMoe", [](const LaunchTuning& t) { return value_of(t.moe_on_cpu); }, always<kProcessorOnly>},
    {"nCpuMoe", [](const LaunchTuning& t) { return value_of(t.moe_layers_on_cpu); }, always<kProcessorOnly>},
    {"cacheReuse", [](const LaunchTuning& t) { return value_of(t.cache_reuse); }, always<kOwnReuse>},
    {"swaFull", [](const LaunchTuning& t) { return value_of(t.full_sliding_window); },
     [](const LaunchTuning& t, const EmbeddedOptions&) -> std::string_view {
       return *t.full_sliding_window
                  ? "layers with a window keep their window; it is restored where a prompt "
                    "goes back behind it"
                  : "";
     }},
    {"flashAttn", [](const LaunchTuning& t) { return value_of(t.flash_attention); },
     [](const LaunchTuning&, const EmbeddedOptions& options) {
       return options.flash_attention ? kYours : std::string_view();
     },
     [](const LaunchTuning& t, LaunchPlan& plan) {
       if (t.flash_attention != "auto") plan.flash_attention = t.flash_attention == "on";
     }},
    {"ubatchSize", [](const LaunchTuning& t) { return value_of(t.micro_batch); }, always<kPieces>},
    {"batchSize", [](const LaunchTuning& t) { return value_of(t.batch); }, always<kPieces>},
    {"threads", [](const LaunchTuning& t) { return value_of(t.threads); },
     [](const LaunchTuning&, const EmbeddedOptions& options) {
       return options.threads ? kYours : std::string_view();
     },
     [](const LaunchTuning& t, LaunchPlan& plan) {
       plan.threads = static_cast<int>(std::min<std::int64_t>(*t.threads, kMostThreads));
     }},
    {"contextSize", [](const LaunchTuning& t) { return value_of(t.context); },
     [](const LaunchTuning&, const EmbeddedOptions& options) {
       return options.context ? kYours : std::string_view();
     },
     [](const LaunchTuning& t, LaunchPlan& plan) {
       if (plan.capacity) plan.capacity->settings.context.catalog = t.context;
     }},
    {"chatTemplate", [](const LaunchTuning& t) { return value_of(t.chat_template); },
     [](const LaunchTuning&, const EmbeddedOptions&) { return std::string_view(); },
     [](const LaunchTuning& t, LaunchPlan& plan) { plan.chat_template = t.chat_template; }},
    {"spec.type", [](const LaunchTuning& t) { return value_of(t.speculation); },
     [](const LaunchTuning& t, const EmbeddedOptions& options) {
       if (t.speculation == "none") return options.draft.any() ? kYours : std::string_view();
       return t.speculation == kDraftSimple ? draft_ignored(t, options) : kOwnLookup;
     }},
    {"spec.mtp", [](const LaunchTuning& t) { return value_of(t.multi_token_prediction); },
     always<kCapability>},
    {"spec.draftModelId", [](const LaunchTuning& t) { return value_of(t.draft_model); }, draft_ignored},
    {"spec.nMax", [](const LaunchTuning& t) { return value_of(t.draft_tokens); },
     [](const LaunchTuning& t, const EmbeddedOptions& options) {
       return options.draft.most ? kYours : draft_ignored(t, options);
     }},
});

}  // namespace

std::vector<TuningVerdict> judge_launch_tuning(const LaunchTuning& tuning, const EmbeddedOptions& options) {
  std::vector<TuningVerdict> out;
  for (const Row& row : kRows) {
    auto value = row.read(tuning);
    if (value.is_null()) continue;
    out.push_back({std::string(row.setting), std::move(value), std::string(row.ignored(tuning, options))});
  }
  return out;
}

void apply_launch_tuning(const LaunchTuning& tuning, const EmbeddedOptions& options, LaunchPlan& plan) {
  plan.tuning = judge_launch_tuning(tuning, options);
  for (const auto& verdict : plan.tuning) {
    const auto row = std::ranges::find(kRows, verdict.setting, &Row::setting);
    if (verdict.ignored.empty() && row->apply != nullptr) row->apply(tuning, plan);
  }
}

json::object launch_tuning_json(const std::vector<TuningVerdict>& verdicts) {
  json::object applied, ignored;
  for (const auto& verdict : verdicts) {
    if (verdict.ignored.empty())
      applied[verdict.setting] = verdict.value;
    else
      ignored[verdict.setting] = verdict.ignored;
  }
  json::object out;
  if (!applied.empty()) out["applied"] = std::move(applied);
  if (!ignored.empty()) out["ignored"] = std::move(ignored);
  return out;
}

}  // namespace gezel::engine_llama
