#include "engine_llama/launch_plan.h"

#include "base/log.h"
#include "engine_llama/model_source.h"
#include "gguf/metadata.h"
#include "models/profile_files.h"
#include "prompt/behaviors.h"
#include "protocol/messages.h"
#include "system/cpu.h"
#include "system/memory.h"

namespace gezel::engine_llama {

capacity::LaunchSettings launch_settings(const EmbeddedOptions& options) {
  capacity::LaunchSettings out;
  // Calibration will choose; until then what was asked for.
  out.kv_type = options.kv_type.value_or(capacity::KvType::f16);
  out.swa_full = false;
  out.micro_batch = protocol::kMicroBatchTokens;
  out.slots = options.slots;
  if (!options.prompt_cache.off) out.spare_cache = options.prompt_cache.memory.value_or(0);
  // A person's own word counts even below what this machine usually grants.
  out.context.model_override = options.context;
  return out;
}

Planner make_planner(const EmbeddedOptions& options, SelfTest self_test) {
  return [self_test = std::move(self_test), excluded = options.excluded_buffer_types,
          settings = launch_settings(options), threads = options.threads, behaviors = options.behaviors,
          home = options.home, catalog = options.catalog](
             const models::InstalledModel& model) -> engine::EngineResult<LaunchPlan> {
    auto metadata = gguf::read_metadata(model.weights);
    if (!metadata) {
      if (is_about_reading(metadata.error()))
        return std::unexpected(unreadable_model(std::move(metadata).error()));
      return std::unexpected(engine::make_error("model-invalid", std::move(metadata).error().message));
    }
    LaunchPlan out;
    capacity::LaunchInput input;
    input.model = capacity::model_facts(*metadata);
    input.model.id = model.id;
    input.model.weights = model.size_bytes;
    input.settings = settings;
    out.capacity = std::move(input);
    out.threads = threads.value_or(system::read_cpu().available);
    out.available_bytes = system::read_memory().available;
    out.vocabulary = static_cast<std::int64_t>(metadata->vocabulary_tokens);
    // Read anew, so that a changed profile counts from the next load on.
    const auto all = models::read_profiles(home);
    models::log_problems(all);
    std::optional<models::CatalogTuning> tuning;
    if (catalog) tuning = models::catalog_tuning(*catalog, model);
    out.profile = models::profile_for(all, model.id, *metadata, tuning);
    const auto switched = prompt::switched(out.profile.style.behaviors, behaviors);
    for (const auto& warning : switched.warnings) log_warn(warning, {{"model", model.id}});
    out.profile.style.behaviors = switched.behaviors;
    auto failing = self_test();
    if (!failing)
      return std::unexpected(engine::make_error("engine-unusable", std::move(failing).error().message));
    out.excluded_buffer_types = std::move(*failing);
    out.excluded_buffer_types.insert(out.excluded_buffer_types.end(), excluded.begin(), excluded.end());
    return out;
  };
}

}  // namespace gezel::engine_llama
