#include "prompt/behaviors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace gezel::prompt {
namespace {

constexpr std::string_view kForceName = "GEZEL_FORCE_BEHAVIORS";
constexpr std::string_view kRemoveName = "GEZEL_REMOVE_BEHAVIORS";

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const auto begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) + 1 - begin);
}

}  // namespace

const BehaviorRow* find_behavior(std::string_view id) {
  const auto* found = std::ranges::find(kBehaviors, id, &BehaviorRow::id);
  return found == kBehaviors.end() ? nullptr : found;
}

std::vector<std::string_view> behavior_ids() {
  std::vector<std::string_view> ids;
  for (const auto& row : kBehaviors) ids.push_back(row.id);
  return ids;
}

std::vector<std::string> read_id_list(std::string_view text) {
  std::vector<std::string> ids;
  while (!text.empty()) {
    const auto comma = std::min(text.find(','), text.size());
    if (const auto id = trimmed(text.substr(0, comma)); !id.empty()) ids.emplace_back(id);
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return ids;
}

std::vector<std::string> problems_of(const BehaviorSwitches& switches) {
  std::vector<std::string> problems;
  const auto look = [&](std::string_view variable, const std::vector<std::string>& ids) {
    for (const auto& id : ids) {
      if (find_behavior(id) != nullptr) continue;
      problems.push_back(fmt::format("{} has '{}', which changes nothing: the behaviours are {}", variable,
                                     id, fmt::join(behavior_ids(), ", ")));
    }
  };
  look(kForceName, switches.force);
  look(kRemoveName, switches.remove);
  return problems;
}

SwitchedBehaviors switched(const Behaviors& of_profile, const BehaviorSwitches& switches) {
  SwitchedBehaviors out{of_profile, {}};
  const auto apply = [&](std::string_view variable, const std::vector<std::string>& ids, bool on) {
    for (const auto& id : ids) {
      const auto* row = find_behavior(id);
      if (row == nullptr) continue;
      bool& value = out.behaviors.*row->on;
      if (value == on)
        out.warnings.push_back(
            fmt::format("{} has '{}', which changes nothing for this model: it is {} already", variable, id,
                        on ? "on" : "off"));
      value = on;
    }
  };
  apply(kForceName, switches.force, true);
  apply(kRemoveName, switches.remove, false);
  return out;
}

}  // namespace gezel::prompt
