#include "profiles/match.h"

#include <algorithm>

#include "prompt/sampling_fields.h"
#include "prompt/tuning_profiles.h"

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
  if (profile.behaviors) style.behaviors = *profile.behaviors;
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

// Forgets what `over` has set.
void forget(prompt::SamplingOptions& under, const prompt::SamplingOptions& over) {
  for (const auto& field : prompt::kSamplingNumbers) {
    if (over.*field.target) (under.*field.target).reset();
  }
  for (const auto& field : prompt::kSamplingIntegers) {
    if (over.*field.target) (under.*field.target).reset();
  }
  if (over.dry_sequence_breakers) under.dry_sequence_breakers.reset();
}

// What layers add up to. `thinking` is kept as a difference until the end, because a named profile's values
// go below it.
struct Sum {
  prompt::SamplingOptions plain, thinking;
  json::object variables;
  std::optional<int> max_tokens, thinking_budget;
  prompt::PromptTags tags;

  void add(const Overlay& over) {
    prompt::lay_over(plain, over.sampling);
    merge_variables(variables, over.template_kwargs);
    if (over.max_tokens) max_tokens = over.max_tokens;
    if (over.thinking_budget) thinking_budget = over.thinking_budget;
    if (over.think_tag) tags.think = *over.think_tag;
    if (over.no_think_tag) tags.no_think = *over.no_think_tag;
  }

  prompt::Tuning tuning(bool for_thinking = false) const {
    prompt::Tuning out;
    out.sampling = out.sampling_when_thinking = plain;
    if (!for_thinking) prompt::lay_over(out.sampling_when_thinking, thinking);
    if (!variables.empty()) out.template_kwargs = to_json(variables);
    out.max_tokens = max_tokens;
    out.thinking_budget = thinking_budget;
    out.tags = tags;
    return out;
  }
};

const Overlay* overlay_named(const Values& values, std::string_view id) {
  const auto found = std::ranges::find_if(values.named, [&](const auto& one) { return one.first == id; });
  return found == values.named.end() ? nullptr : &found->second;
}

// `layers`: the weakest first.
void settle_tuning(Applied& out, const std::vector<const Profile*>& layers,
                   const prompt::SamplingOptions& of_file, const Values* catalog) {
  static const Values kNothing;
  const Values& entry = catalog == nullptr ? kNothing : *catalog;
  Sum base;
  base.add(entry);
  prompt::lay_over(base.thinking, entry.sampling_when_thinking);
  for (const auto* profile : layers) base.add(profile->values);
  for (const auto* profile : layers) prompt::lay_over(base.thinking, profile->values.sampling_when_thinking);
  // What is said later for both counts more than what was said before for thinking.
  const auto override_both = [&](const prompt::SamplingOptions& sampling) {
    prompt::lay_over(base.plain, sampling);
    forget(base.thinking, sampling);
  };
  override_both(of_file);
  for (const auto* profile : layers) {
    base.add(profile->own);
    forget(base.thinking, profile->own.sampling);
  }
  for (const auto* profile : layers) prompt::lay_over(base.thinking, profile->own.sampling_when_thinking);
  out.tuning = base.tuning();

  if (entry.tuning_profile) out.tuning_profile = *entry.tuning_profile;
  for (const auto* profile : layers) {
    if (profile->values.tuning_profile) out.tuning_profile = *profile->values.tuning_profile;
  }
  for (const auto* profile : layers) {
    if (profile->own.tuning_profile) out.tuning_profile = *profile->own.tuning_profile;
  }
  for (const auto& row : prompt::kTuningProfiles) {
    Sum sum = base;
    bool found = false;
    const auto add = [&](const Values& values) {
      const auto* overlay = overlay_named(values, row.id);
      if (overlay == nullptr) return;
      found = true;
      sum.add(*overlay);
      prompt::lay_over(sum.thinking, overlay->sampling_when_thinking);
    };
    add(entry);
    for (const auto* profile : layers) add(profile->values);
    for (const auto* profile : layers) add(profile->own);
    if (found) out.named.push_back({std::string(row.id), sum.tuning(row.thinking)});
  }
}

// The members of a tuning; `under`: only where it differs from that.
json::object tuning_json(const prompt::Tuning& tuning, const prompt::Tuning* under = nullptr) {
  json::object out;
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
  json::object tags;
  if (!tuning.tags.think.empty()) tags["enable_thinking"] = tuning.tags.think;
  if (!tuning.tags.no_think.empty()) tags["disable_thinking"] = tuning.tags.no_think;
  if (!tags.empty()) out["prompt_tags"] = std::move(tags);
  if (under == nullptr) return out;
  for (const auto& [name, value] : tuning_json(*under)) {
    const auto* here = out.if_contains(name);
    if (here != nullptr && *here == value) out.erase(name);
  }
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

Applied apply(const Profiles& profiles, const Model& model, const prompt::SamplingOptions& of_file,
              const Values* catalog) {
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

  for (const auto* profile : layers) {
    lay_over_style(out.style, *profile);
    out.user = out.user || profile->user;
  }
  settle_tuning(out, layers, of_file, catalog);
  return out;
}

json::object to_json_object(const Applied& applied) {
  json::object out{{"name", applied.name.empty() ? json::value(nullptr) : json::value(applied.name)}};
  if (!applied.overrides.empty()) out["overrides"] = json::value_from(applied.overrides);
  out["user"] = applied.user;
  if (!applied.catalog.empty()) out["catalog"] = applied.catalog;
  const auto& style = applied.style;
  if (!style.dialect.empty()) out["dialect"] = style.dialect;
  if (!style.family.empty()) out["family"] = style.family;
  if (!style.reasoning_open.empty())
    out["reasoning"] = json::object{{"open", style.reasoning_open}, {"close", style.reasoning_close}};
  json::array behaviors;
  for (const auto& row : prompt::kBehaviors) {
    if (style.behaviors.*row.on) behaviors.emplace_back(row.id);
  }
  if (!behaviors.empty()) out["behaviors"] = std::move(behaviors);
  for (const auto& [name, value] : tuning_json(applied.tuning)) out[name] = value;
  if (!applied.tuning_profile.empty()) out["tuning_profile"] = applied.tuning_profile;
  json::object named;
  for (const auto& one : applied.named) named[one.profile] = tuning_json(one.tuning, &applied.tuning);
  if (!named.empty()) out["profiles"] = std::move(named);
  return out;
}

}  // namespace gezel::profiles
