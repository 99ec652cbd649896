#include "profiles/match.h"

#include <algorithm>

#include "prompt/sampling_fields.h"

namespace gezel::profiles {
namespace {

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

// Letter case does not count: ids of models are told apart without it. One step back per star is enough,
// because a later star can do whatever an earlier one could have done instead.
bool glob(std::string_view pattern, std::string_view text) {
  std::size_t p = 0, t = 0, star = std::string_view::npos, resume = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || lower(pattern[p]) == lower(text[t]))) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

bool names_model(const Profile& profile) {
  return !profile.match.model.empty();
}

void lay_over_style(prompt::WritingStyle& style, const Profile& profile) {
  if (profile.dialect) style.dialect = *profile.dialect;
  if (profile.family) style.family = *profile.family;
  if (profile.reasoning) {
    style.reasoning_open = profile.reasoning->first;
    style.reasoning_close = profile.reasoning->second;
  }
}

void merge_variables(json::object& under, const json::object& over) {
  for (const auto& [name, value] : over) {
    auto& target = under[name];
    if (target.is_object() && value.is_object()) {
      merge_variables(target.get_object(), value.get_object());
    } else {
      target = value;
    }
  }
}

json::object sampling_json(const prompt::SamplingOptions& sampling) {
  json::object out;
  // As short as the number was written: 0.95, not what the nearest float is as a double.
  for (const auto& field : prompt::kSamplingNumbers) {
    if (!field.alias && sampling.*field.target)
      out[field.name] = std::stod(fmt::format("{}", *(sampling.*field.target)));
  }
  for (const auto& field : prompt::kSamplingIntegers) {
    if (sampling.*field.target) out[field.name] = *(sampling.*field.target);
  }
  if (sampling.dry_sequence_breakers)
    out[prompt::kDryBreakers] = json::value_from(*sampling.dry_sequence_breakers);
  return out;
}

}  // namespace

bool fits(const Match& match, const Model& model) {
  const auto shows = [&](const std::string& mark) { return model.chat_template.contains(mark); };
  const auto is_architecture = [&](const std::string& name) { return model.architecture == name; };
  const auto is_model = [&](const std::string& pattern) { return glob(pattern, model.id); };
  return std::ranges::all_of(match.chat_template, shows) &&
         (match.architecture.empty() || std::ranges::any_of(match.architecture, is_architecture)) &&
         (match.model.empty() || std::ranges::any_of(match.model, is_model));
}

Applied apply(const Profiles& profiles, const Model& model, const prompt::SamplingOptions& of_file) {
  // The weakest first.
  std::vector<const Profile*> layers;
  Applied out;
  for (const auto& profile : profiles.all) {
    if (names_model(profile) || !fits(profile.match, model)) continue;
    out.name = profile.name;
    layers.push_back(&profile);
    break;
  }
  for (const auto& profile : profiles.all) {
    if (!names_model(profile) || !fits(profile.match, model)) continue;
    out.overrides.push_back(profile.name);
    layers.insert(layers.begin() + (out.name.empty() ? 0 : 1), &profile);
  }

  auto& plain = out.tuning.sampling;
  auto& thinking = out.tuning.sampling_when_thinking;
  json::object variables;
  const auto lay_over = [&](const Values& values) {
    prompt::lay_over(plain, values.sampling);
    prompt::lay_over(thinking, values.sampling);
    merge_variables(variables, values.template_kwargs);
    if (values.max_tokens) out.tuning.max_tokens = values.max_tokens;
    if (values.thinking_budget) out.tuning.thinking_budget = values.thinking_budget;
  };
  const auto lay_over_thinking = [&](const Values& values) {
    prompt::lay_over(thinking, values.sampling_when_thinking);
  };
  for (const auto* profile : layers) {
    lay_over_style(out.style, *profile);
    lay_over(profile->values);
    out.user = out.user || profile->user;
  }
  for (const auto* profile : layers) lay_over_thinking(profile->values);
  prompt::lay_over(plain, of_file);
  prompt::lay_over(thinking, of_file);
  for (const auto* profile : layers) lay_over(profile->own);
  for (const auto* profile : layers) lay_over_thinking(profile->own);
  if (!variables.empty()) out.tuning.template_kwargs = to_json(variables);
  return out;
}

json::object to_json_object(const Applied& applied) {
  json::object out{{"name", applied.name.empty() ? json::value(nullptr) : json::value(applied.name)}};
  if (!applied.overrides.empty()) out["overrides"] = json::value_from(applied.overrides);
  out["user"] = applied.user;
  const auto& style = applied.style;
  if (!style.dialect.empty()) out["dialect"] = style.dialect;
  if (!style.family.empty()) out["family"] = style.family;
  if (!style.reasoning_open.empty())
    out["reasoning"] = json::object{{"open", style.reasoning_open}, {"close", style.reasoning_close}};
  const auto& tuning = applied.tuning;
  json::object plain = sampling_json(tuning.sampling),
               thinking = sampling_json(tuning.sampling_when_thinking);
  // Said only where it is another.
  const bool same = thinking == plain;
  if (!plain.empty()) out["sampling"] = std::move(plain);
  if (!same) out["sampling_when_thinking"] = std::move(thinking);
  if (!tuning.template_kwargs.empty()) {
    if (auto variables = parse_json(tuning.template_kwargs)) out["template_kwargs"] = std::move(*variables);
  }
  if (tuning.max_tokens) out["max_tokens"] = *tuning.max_tokens;
  if (tuning.thinking_budget) out["thinking_budget"] = *tuning.thinking_budget;
  return out;
}

}  // namespace gezel::profiles
