#include "profiles/catalog_tuning.h"

#include <array>
#include <limits>

#include "profiles/reader.h"
#include "prompt/tuning_profiles.h"

namespace gezel::profiles {
namespace {

using Options = prompt::SamplingOptions;

struct Number {
  std::string_view name;
  double low, high;
  std::optional<float> Options::* target;
  bool above_low = false;
};
struct Integer {
  std::string_view name;
  std::int64_t low, high;
  std::optional<int> Options::* target;
};
constexpr std::int64_t kAnyInteger = std::numeric_limits<int>::max();

constexpr std::array kNumbers{
    Number{"temperature", 0, 2, &Options::temperature},
    Number{"topP", 0, 1, &Options::top_p},
    Number{"minP", 0, 1, &Options::min_p},
    Number{"repetitionPenalty", 0, 3, &Options::repeat_penalty, true},  // a penalty of 0 would divide by it
    Number{"frequencyPenalty", -2, 2, &Options::frequency_penalty},
    Number{"presencePenalty", -2, 2, &Options::presence_penalty},
};
constexpr std::array kIntegers{
    Integer{"topK", 0, 1000, &Options::top_k},
    Integer{"repetitionContext", 1, kAnyInteger, &Options::repeat_last_n},
};
constexpr std::array kDryNumbers{
    Number{"multiplier", 0, 5, &Options::dry_multiplier},
    Number{"base", 0, 5, &Options::dry_base},
};
constexpr std::array kDryIntegers{Integer{"allowedLength", 0, 64, &Options::dry_allowed_length}};
constexpr std::array kXtcNumbers{
    Number{"probability", 0, 1, &Options::xtc_probability},
    Number{"threshold", 0, 1, &Options::xtc_threshold},
};
constexpr float kDryBase = 1.75F;
constexpr int kDryAllowedLength = 2;

void read(const Reader& in, std::span<const Number> numbers, std::span<const Integer> integers,
          Options& out) {
  for (const auto& row : numbers) {
    if (const auto number = in.number(row.name, row.low, row.high, row.above_low))
      out.*row.target = static_cast<float>(*number);
  }
  for (const auto& row : integers) {
    if (const auto number = in.integer(row.name, row.low, row.high)) out.*row.target = *number;
  }
}

// The object `name` of `in` as a reader; nothing: it is not there.
std::optional<Reader> inside(const Reader& in, std::string_view name) {
  const auto* object = in.object(name);
  if (object == nullptr) return std::nullopt;
  return Reader(*object, in.pointer_to(name), in.file(), in.problems());
}

Options read_sampling(const Reader& in) {
  Options out;
  read(in, kNumbers, kIntegers, out);
  if (const auto dry = inside(in, "dry")) {
    read(*dry, kDryNumbers, kDryIntegers, out);
    if (!out.dry_base) out.dry_base = kDryBase;
    if (!out.dry_allowed_length) out.dry_allowed_length = kDryAllowedLength;
  }
  if (const auto xtc = inside(in, "xtc")) read(*xtc, kXtcNumbers, {}, out);
  return out;
}

void read_reasoning(const Reader& in, Overlay& out) {
  out.thinking_budget = in.integer("thinkingBudget", 1, kAnyInteger);
  // The entry's own variables are what its author tried out with the template, so they win.
  if (const auto effort = in.text("effort", kMaxNameBytes)) out.template_kwargs["reasoning_effort"] = *effort;
  if (const auto* enable = in.member("enableThinking")) {
    if (enable->is_bool()) {
      out.template_kwargs["enable_thinking"] = enable->get_bool();
    } else {
      in.problem("enableThinking", *enable, "true or false");
    }
  }
  if (const auto* variables = in.object("templateKwargs")) {
    for (const auto& [name, value] : *variables) out.template_kwargs[name] = value;
  }
}

Overlay read_overlay(const Reader& in) {
  Overlay out;
  if (const auto sampling = inside(in, "sampling")) {
    out.sampling = read_sampling(*sampling);
    out.max_tokens = sampling->integer("maxTokens", 1, kAnyInteger);
  }
  if (const auto thinking = inside(in, "samplingWhenThinking"))
    out.sampling_when_thinking = read_sampling(*thinking);
  if (const auto reasoning = inside(in, "reasoning")) read_reasoning(*reasoning, out);
  if (const auto tags = inside(in, "promptTags")) {
    out.think_tag = tags->text("enableThinkingTag", kMaxTagBytes);
    out.no_think_tag = tags->text("disableThinkingTag", kMaxTagBytes);
  }
  return out;
}

}  // namespace

Values read_catalog_tuning(const json::object& tuning, std::string_view file,
                           std::vector<Problem>& problems) {
  const Reader in(tuning, "", file, problems);
  Values out{read_overlay(in), {}, {}};
  const auto profiles = inside(in, "profiles");
  if (!profiles) return out;
  for (const auto& profile : prompt::kTuningProfiles) {
    if (const auto named = inside(*profiles, profile.id))
      out.named.emplace_back(profile.id, read_overlay(*named));
  }
  return out;
}

}  // namespace gezel::profiles
