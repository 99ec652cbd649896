// engine_llama/launch_tuning.h
//
// What a catalog entry says about launching its model, tuning.engine.llamaCpp (spec 60 section 2.8), and what
// this engine makes of it. A person's own word counts more, and what has no meaning for this engine is named
// with its reason instead of being dropped in silence.
#pragma once
#include <string>
#include <vector>

#include "base/json.h"
#include "catalog/tuning.h"
#include "engine_llama/embedded_engine.h"
#include "engine_llama/launch_plan.h"

namespace gezel::engine_llama {

// Every setting that the entry has, in the order of the specification; no plan is needed to know.
std::vector<TuningVerdict> judge_launch_tuning(const catalog::LaunchTuning& tuning,
                                               const EmbeddedOptions& options);
// The same, and what holds is put into the plan.
void apply_launch_tuning(const catalog::LaunchTuning& tuning, const EmbeddedOptions& options,
                         LaunchPlan& plan);

// {"applied": {"threads": 3}, "ignored": {"nGpuLayers": "this engine ..."}}; empty where nothing was said.
json::object launch_tuning_json(const std::vector<TuningVerdict>& verdicts);

}  // namespace gezel::engine_llama
