// catalog/tuning.h
//
// Defaults that come with a catalog item (spec 60 section 2.8): request > caller's profile > tuning profile >
// tuning > engine. Absent members leave the next word to those after them. Plain data.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace gezel::catalog {

struct SamplingTuning {
  std::optional<double> temperature, top_p, min_p, repetition_penalty, frequency_penalty, presence_penalty;
  std::optional<std::int64_t> top_k, max_tokens, seed, repetition_context;
  std::optional<double> dry_multiplier, dry_base, xtc_probability, xtc_threshold;
  std::optional<std::int64_t> dry_allowed_length;
};

struct ReasoningTuning {
  std::string effort;  // low | medium | high
  std::optional<std::int64_t> thinking_budget;
  std::optional<bool> enable_thinking;
  std::map<std::string, std::variant<std::string, double, bool>> template_arguments;
};

// What applies per request; a profile of the item overlays it member by member.
struct TurnTuning {
  std::optional<SamplingTuning> sampling, sampling_when_thinking;
  std::optional<ReasoningTuning> reasoning;
  std::string response_format, json_schema, grammar;  // json_schema as JSON text
  std::string tool_choice;                            // auto | required | none
  std::string enable_thinking_tag, disable_thinking_tag;
};

struct LaunchTuning {
  std::optional<std::int64_t> gpu_layers, moe_layers_on_cpu, cache_reuse, micro_batch, batch, threads,
      context;
  std::optional<bool> moe_on_cpu, full_sliding_window;
  std::string flash_attention, chat_template;
  std::string speculation, draft_model;
  std::optional<bool> multi_token_prediction;  // verified capability; switches nothing on
  std::optional<std::int64_t> draft_tokens;
};

struct Tuning {
  TurnTuning turn;
  LaunchTuning launch;
  std::map<std::string, TurnTuning> profiles;
};

}  // namespace gezel::catalog
