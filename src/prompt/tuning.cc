#include "prompt/tuning.h"

#include <algorithm>
#include <ranges>

#include "base/json.h"
#include "prompt/sampling_fields.h"
#include "prompt/tuning_profiles.h"

namespace gezel::prompt {
namespace {

// Template variables that say whether and how deeply to reason.
constexpr std::array kThinkingVariables{"enable_thinking", "reasoning_effort", "reasoning_strength"};

std::string joined_kwargs(const GenerateRequest& request, const Tuning& tuning) {
  auto under = parse_json(tuning.template_kwargs);
  if (!under || !under->is_object()) return request.template_kwargs;
  json::object& variables = under->get_object();
  if (!request.reasoning_effort.empty()) {
    for (const auto* name : kThinkingVariables) variables.erase(name);
  }
  if (!request.template_kwargs.empty()) {
    auto over = parse_json(request.template_kwargs);
    // What is wrong with it is said when the prompt is rendered.
    if (!over || !over->is_object()) return request.template_kwargs;
    for (const auto& [name, value] : over->get_object()) variables[name] = value;
  }
  return variables.empty() ? std::string() : to_json(variables);
}

// Whether `word` stands in `text` between white space or the ends: "/no_think" holds "/think" only as a part.
bool holds_word(std::string_view text, std::string_view word) {
  constexpr std::string_view kSpace = " \t\r\n";
  for (auto at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
    const auto end = at + word.size();
    if ((at == 0 || kSpace.contains(text[at - 1])) && (end == text.size() || kSpace.contains(text[end])))
      return true;
  }
  return false;
}

bool holds_word(const Message& message, std::string_view word) {
  return !word.empty() && std::ranges::any_of(message.content, [&](const ContentPart& part) {
    return part.kind == ContentPart::Kind::text && holds_word(part.text, word);
  });
}

template <class Request>
auto* last_user_message(Request& request) {
  const auto reversed = request.messages | std::views::reverse;
  const auto found = std::ranges::find(reversed, Role::user, &Message::role);
  return found == reversed.end() ? nullptr : &*found;
}

}  // namespace

ChosenTuning choose_tuning(const Tuning& base, std::span<const NamedTuning> named, std::string_view wanted) {
  std::vector<std::string_view> available;
  for (const auto& one : named) available.emplace_back(one.profile);
  const auto id = resolve_tuning_profile(wanted, available);
  const auto found = std::ranges::find(named, id, &NamedTuning::profile);
  if (found != named.end()) return {std::string(id), found->tuning};
  ChosenTuning out{std::string(id), base};
  if (const auto* generic = find_tuning_profile(id); generic != nullptr && generic->temperature) {
    out.tuning.sampling.temperature = generic->temperature;
    out.tuning.sampling_when_thinking.temperature = generic->temperature;
  }
  return out;
}

ThinkingAsked thinking_asked(const GenerateRequest& request) {
  if (!request.template_kwargs.empty()) {
    const auto parsed = parse_json(request.template_kwargs);
    const auto* object = parsed ? parsed->if_object() : nullptr;
    const auto* set = object == nullptr ? nullptr : object->if_contains("enable_thinking");
    if (set != nullptr && set->is_bool()) return set->get_bool() ? ThinkingAsked::on : ThinkingAsked::off;
  }
  if (request.reasoning_effort.empty()) return ThinkingAsked::unsaid;
  return request.reasoning_effort == "none" ? ThinkingAsked::off : ThinkingAsked::on;
}

ThinkingAsked thinking_tagged(const GenerateRequest& request, const PromptTags& tags) {
  const auto* message = last_user_message(request);
  if (message == nullptr) return ThinkingAsked::unsaid;
  if (holds_word(*message, tags.no_think)) return ThinkingAsked::off;
  return holds_word(*message, tags.think) ? ThinkingAsked::on : ThinkingAsked::unsaid;
}

void append_tag(GenerateRequest& request, const PromptTags& tags) {
  const auto asked = thinking_asked(request);
  if (asked == ThinkingAsked::unsaid) return;
  const std::string& tag = asked == ThinkingAsked::on ? tags.think : tags.no_think;
  auto* message = last_user_message(request);
  if (tag.empty() || message == nullptr || holds_word(*message, tag)) return;
  for (auto& part : message->content | std::views::reverse) {
    if (part.kind != ContentPart::Kind::text) continue;
    if (!part.text.empty()) part.text += ' ';
    part.text += tag;
    return;
  }
  message->content.push_back({ContentPart::Kind::text, tag});
}

void lay_over(SamplingOptions& under, const SamplingOptions& over) {
  for (const auto& field : kSamplingNumbers) {
    if (over.*field.target) under.*field.target = over.*field.target;
  }
  for (const auto& field : kSamplingIntegers) {
    if (over.*field.target) under.*field.target = over.*field.target;
  }
  if (over.dry_sequence_breakers) under.dry_sequence_breakers = over.dry_sequence_breakers;
}

void fill_in(GenerateRequest& request, const Tuning& tuning) {
  if (!tuning.template_kwargs.empty()) request.template_kwargs = joined_kwargs(request, tuning);
  if (!request.max_output_tokens) request.max_output_tokens = tuning.max_tokens;
  if (!request.max_thinking_tokens) request.max_thinking_tokens = tuning.thinking_budget;
}

}  // namespace gezel::prompt
