#include "engine_llama/launch_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/files.h"
#include "base/ids.h"
#include "base/log.h"
#include "engine/quarantine.h"
#include "engine_llama/launch_tuning.h"
#include "engine_llama/model_source.h"
#include "gguf/metadata.h"
#include "models/profile_files.h"
#include "prompt/behaviors.h"
#include "protocol/messages.h"
#include "system/cores.h"
#include "system/cpu.h"
#include "system/memory.h"

namespace gezel::engine_llama {
namespace {

CalibrationFacts calibration_facts(const EmbeddedOptions& options, const models::InstalledModel& model,
                                   const system::CpuFacts& cpu) {
  CalibrationFacts out;
  const auto stamp = stamp_file(model.weights);
  if (!options.calibration || !stamp) return out;
  out.key = {sha256_hex(fmt::format("{}:{}", model.weights.string(), engine::fingerprint_stamp(*stamp))),
             engine::fingerprint_file(options.engine_program),
             cpu.model,
             share_of_cores(cpu.available, options.replicas),
             std::string(engine::backend_name(options.backend)),
             options.replicas};
  out.record = CalibrationStore(options.home).find(out.key);
  const int physical = system::physical_cores();
  out.physical_cores = physical > 0 ? share_of_cores(physical, options.replicas) : 0;
  out.flash_attention = options.flash_attention;
  out.threads = options.threads;
  return out;
}

engine::EngineError unusable(Error error) {
  if (is_about_reading(error)) return unreadable_model(std::move(error));
  return engine::make_error("model-invalid", std::move(error).message);
}

// What follows from the file, the machine and what people said, before any tuning.
LaunchPlan plan_shape(const EmbeddedOptions& options, const models::InstalledModel& model,
                      const gguf::Metadata& metadata) {
  LaunchPlan out;
  const auto cpu = system::read_cpu();
  out.threads = options.threads.value_or(cpu.available);
  out.calibration = calibration_facts(options, model, cpu);
  out.available_bytes = system::read_memory().available;
  out.vocabulary = static_cast<std::int64_t>(metadata.vocabulary_tokens);
  capacity::LaunchInput& input = out.capacity.emplace();
  input.model = capacity::model_facts(metadata);
  input.model.id = model.id;
  input.model.weights = model.size_bytes;
  input.settings = launch_settings(options);
  if (const auto setting = chosen_setting(out.calibration, "f16"))
    input.settings.calibrated =
        capacity::KvChoice{.type = capacity::KvType::f16, .flash_attention = setting->flash_attention};
  return out;
}

void use_tuning(const models::CatalogTuning& tuning, const EmbeddedOptions& options, const std::string& id,
                LaunchPlan& out) {
  apply_launch_tuning(tuning.launch, options, out);
  for (const auto& verdict : out.tuning) {
    if (verdict.ignored.empty()) continue;
    log_info("a launch setting of the catalog is not used",
             {{"model", id}, {"setting", verdict.setting}, {"reason", verdict.ignored}});
  }
}

// Read anew, so that a changed profile counts from the next load on.
profiles::Applied profile_of(const EmbeddedOptions& options, const std::string& id,
                             const gguf::Metadata& metadata,
                             const std::optional<models::CatalogTuning>& tuning) {
  const auto all = models::read_profiles(options.home);
  models::log_problems(all);
  auto profile = models::profile_for(all, id, metadata, tuning);
  const auto switched = prompt::switched(profile.style.behaviors, options.behaviors);
  for (const auto& warning : switched.warnings) log_warn(warning, {{"model", id}});
  profile.style.behaviors = switched.behaviors;
  return profile;
}

}  // namespace

int share_of_cores(int cores, int workers) {
  return std::max(1, cores / std::max(1, workers));
}

capacity::LaunchSettings launch_settings(const EmbeddedOptions& options) {
  capacity::LaunchSettings out;
  // Nothing: f16, unless the window would be too short with it.
  out.kv_type = options.kv_type;
  // A quantized cache needs flash attention; who refuses that gets none.
  if (options.flash_attention == false && !out.kv_type) out.kv_type = capacity::KvType::f16;
  out.swa_full = false;
  out.micro_batch = protocol::kMicroBatchTokens;
  out.slots = options.slots;
  if (!options.prompt_cache.off) out.spare_cache = options.prompt_cache.memory.value_or(0);
  // A person's own word counts even below what this machine usually grants.
  out.context.model_override = options.context;
  return out;
}

Planner make_planner(const EmbeddedOptions& options, SelfTest self_test, FindModel find) {
  if (!find)
    find = [](const std::string& id) -> Result<models::InstalledModel> {
      return fail(ErrorKind::not_found, "model_not_found", fmt::format("no model '{}' is installed", id));
    };
  return [options, self_test = std::move(self_test),
          find = std::move(find)](const models::InstalledModel& model) -> engine::EngineResult<LaunchPlan> {
    auto metadata = gguf::read_metadata(model.weights);
    if (!metadata) return std::unexpected(unusable(std::move(metadata).error()));
    LaunchPlan out = plan_shape(options, model, *metadata);
    std::optional<models::CatalogTuning> tuning;
    if (options.catalog) tuning = models::catalog_tuning(*options.catalog, model);
    if (tuning) use_tuning(*tuning, options, model.id, out);
    if (options.speculation) {
      auto draft = plan_draft(options.draft, model, *metadata, tuning ? &tuning->launch : nullptr, find);
      if (!draft) return std::unexpected(std::move(draft).error());
      out.draft = std::move(*draft);
      out.capacity->model.draft_weights = out.draft.bytes;
      out.capacity->model.draft_geometry = out.draft.geometry;
    }
    out.profile = profile_of(options, model.id, *metadata, tuning);
    auto failing = self_test();
    if (!failing)
      return std::unexpected(engine::make_error("engine-unusable", std::move(failing).error().message));
    out.excluded_buffer_types = std::move(*failing);
    const auto& excluded = options.excluded_buffer_types;
    out.excluded_buffer_types.insert(out.excluded_buffer_types.end(), excluded.begin(), excluded.end());
    return out;
  };
}

}  // namespace gezel::engine_llama
