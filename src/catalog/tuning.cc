#include <fmt/format.h>

#include <limits>

#include "catalog/fields.h"

namespace gezel::catalog {
namespace {

constexpr std::int64_t kAny = std::numeric_limits<std::int64_t>::max();

SamplingTuning read_sampling(const Fields& in) {
  SamplingTuning out;
  out.temperature = in.number("temperature", 0, 2);
  out.top_p = in.number("topP", 0, 1);
  out.top_k = in.integer("topK", 0, 1000);
  out.min_p = in.number("minP", 0, 1);
  out.max_tokens = in.integer("maxTokens", 1, kAny);
  out.seed = in.integer("seed", std::numeric_limits<std::int64_t>::min(), kAny);
  out.repetition_penalty = in.number("repetitionPenalty", 0, 3);
  out.repetition_context = in.integer("repetitionContext", 1, kAny);
  out.frequency_penalty = in.number("frequencyPenalty", -2, 2);
  out.presence_penalty = in.number("presencePenalty", -2, 2);
  if (const auto dry = in.object("dry")) {
    out.dry_multiplier = dry->number("multiplier", 0, 5);
    if (!dry->has("multiplier")) dry->missing("multiplier", "a number from 0 to 5");
    out.dry_base = dry->number("base", 0, 5).value_or(1.75);
    out.dry_allowed_length = dry->integer("allowedLength", 0, 64).value_or(2);
  }
  if (const auto xtc = in.object("xtc")) {
    out.xtc_probability = xtc->number("probability", 0, 1);
    out.xtc_threshold = xtc->number("threshold", 0, 1);
  }
  return out;
}

ReasoningTuning read_reasoning(const Fields& in) {
  ReasoningTuning out;
  out.effort = in.one_of("effort", {"low", "medium", "high"});
  out.thinking_budget = in.integer("thinkingBudget", 1, kAny);
  out.enable_thinking = in.boolean("enableThinking");
  if (const auto arguments = in.object("templateKwargs")) {
    for (const auto& [name, value] : arguments->members()) {
      if (const auto* text = value.if_string()) {
        out.template_arguments[name] = std::string(*text);
      } else if (const auto* flag = value.if_bool()) {
        out.template_arguments[name] = *flag;
      } else if (value.is_number()) {
        out.template_arguments[name] = value.to_number<double>();
      } else {
        arguments->wrong(name, "a text, a number, true or false");
      }
    }
  }
  return out;
}

TurnTuning read_turn(const Fields& in) {
  TurnTuning out;
  if (const auto sampling = in.object("sampling")) out.sampling = read_sampling(*sampling);
  if (const auto sampling = in.object("samplingWhenThinking"))
    out.sampling_when_thinking = read_sampling(*sampling);
  if (const auto reasoning = in.object("reasoning")) out.reasoning = read_reasoning(*reasoning);
  if (const auto output = in.object("output")) {
    out.response_format = output->one_of("responseFormat", {"text", "json_object"});
    if (const auto schema = output->object("jsonSchema"))
      out.json_schema = to_json(json::value(schema->members()));
    out.grammar = output->text("grammar");
  }
  out.tool_choice = in.one_of("toolChoice", {"auto", "required", "none"});
  if (const auto tags = in.object("promptTags")) {
    out.enable_thinking_tag = tags->text("enableThinkingTag");
    out.disable_thinking_tag = tags->text("disableThinkingTag");
  }
  return out;
}

LaunchTuning read_launch(const Fields& in) {
  LaunchTuning out;
  out.gpu_layers = in.integer("nGpuLayers", -1, kAny);
  out.moe_on_cpu = in.boolean("cpuMoe");
  out.moe_layers_on_cpu = in.integer("nCpuMoe", 0, kAny);
  out.cache_reuse = in.integer("cacheReuse", 0, kAny);
  out.full_sliding_window = in.boolean("swaFull");
  out.flash_attention = in.one_of("flashAttn", {"on", "off", "auto"});
  out.micro_batch = in.integer("ubatchSize", 1, kAny);
  out.batch = in.integer("batchSize", 1, kAny);
  out.threads = in.integer("threads", 1, kAny);
  out.context = in.integer("contextSize", 1, kAny);
  out.chat_template = in.text("chatTemplate");
  if (const auto spec = in.object("spec")) {
    out.speculation =
        spec->one_of("type", {"none", "draft-mtp", "draft-eagle3", "draft-dflash", "draft-simple",
                              "ngram-mod", "ngram-simple", "ngram-map-k", "ngram-map-k4v", "ngram-cache"});
    out.multi_token_prediction = spec->boolean("mtp");
    out.draft_model = spec->text("draftModelId");
    out.draft_tokens = spec->integer("nMax", 1, kAny);
  }
  return out;
}

}  // namespace

Tuning read_tuning(const Fields& fields) {
  Tuning out;
  out.turn = read_turn(fields);
  if (const auto engine = fields.object("engine")) {
    if (const auto launch = engine->object("llamaCpp")) out.launch = read_launch(*launch);
  }
  if (const auto profiles = fields.object("profiles")) {
    for (const auto& entry : profiles->members()) {
      if (const auto profile = profiles->object(entry.key())) out.profiles[entry.key()] = read_turn(*profile);
    }
  }
  return out;
}

}  // namespace gezel::catalog
