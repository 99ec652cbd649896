#include "engine_llama/launch_plan.h"

#include "base/log.h"
#include "capacity/context_plan.h"
#include "engine_llama/model_source.h"
#include "gguf/metadata.h"
#include "models/profile_files.h"
#include "prompt/behaviors.h"
#include "system/cpu.h"
#include "system/memory.h"

namespace gezel::engine_llama {
namespace {

engine::EngineError from_plan(Error error) {
  const std::string_view code = error.code == "invalid-request" ? "invalid-request" : "capacity-denied";
  return engine::make_error(code, std::move(error.message), std::move(error.param));
}

}  // namespace

Planner make_planner(const EmbeddedOptions& options, SelfTest self_test) {
  return [self_test = std::move(self_test), excluded = options.excluded_buffer_types, slots = options.slots,
          context = options.context, threads = options.threads, behaviors = options.behaviors,
          home = options.home](const models::InstalledModel& model) -> engine::EngineResult<LaunchPlan> {
    auto metadata = gguf::read_metadata(model.weights);
    if (!metadata) {
      if (is_about_reading(metadata.error()))
        return std::unexpected(unreadable_model(std::move(metadata).error()));
      return std::unexpected(engine::make_error("model-invalid", std::move(metadata).error().message));
    }
    capacity::ContextRequest request;
    request.geometry = capacity::kv_geometry(*metadata);
    request.weights = model.size_bytes;
    if (const auto trained = metadata->geometry.context_length)
      request.trained = static_cast<capacity::Tokens>(*trained);
    request.available = system::read_memory().available;
    request.slots = slots;
    request.context = context;
    auto plan = capacity::plan_context(request);
    if (!plan) return std::unexpected(from_plan(std::move(plan).error()));
    LaunchPlan out;
    out.slots = plan->slots;
    out.context = plan->context_per_slot;
    out.threads = threads.value_or(system::read_cpu().available);
    out.kv_bytes = plan->kv_bytes;
    out.available_bytes = request.available;
    out.vocabulary = static_cast<std::int64_t>(metadata->vocabulary_tokens);
    out.note = plan->note;
    // Read anew, so that a changed profile counts from the next load on.
    const auto all = models::read_profiles(home);
    models::log_problems(all);
    out.profile = models::profile_for(all, model.id, *metadata);
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
