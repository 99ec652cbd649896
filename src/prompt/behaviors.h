// prompt/behaviors.h
//
// Behaviours: what must be done differently for some models, as named switches. A profile switches them on
// for its models; whoever runs the service can force and remove them (GEZEL_FORCE_BEHAVIORS,
// GEZEL_REMOVE_BEHAVIORS, spec 50 section 13). One row of the table each.
#pragma once
#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace gezel::prompt {

struct Behaviors {
  // Calls and results of the past are given to the template as text, not only after it refused them (2.3).
  bool flatten_tool_transcript = false;
  bool merge_system_messages = false;   // system messages stand together at the front (2.3)
  bool compact_tool_schemas = false;    // the model is shown tools without their prose (2.4.5)
  bool capture_pre_tool_prose = false;  // planning in front of a call is reasoning (3.3.8)
  bool operator==(const Behaviors&) const = default;
};

struct BehaviorRow {
  std::string_view id;
  bool Behaviors::* on;
};
inline constexpr std::array kBehaviors{
    BehaviorRow{"provider.flatten-tool-transcript", &Behaviors::flatten_tool_transcript},
    BehaviorRow{"provider.merge-system-messages", &Behaviors::merge_system_messages},
    BehaviorRow{"prompt.compact-tool-schemas", &Behaviors::compact_tool_schemas},
    BehaviorRow{"capture-pre-tool-prose", &Behaviors::capture_pre_tool_prose},
};
const BehaviorRow* find_behavior(std::string_view id);  // null: there is none
std::vector<std::string_view> behavior_ids();

// Ids as they were given. One that is in both lists is removed.
struct BehaviorSwitches {
  std::vector<std::string> force, remove;
};
// "a, b" -> {"a", "b"}: white space around ids and empty ones do not count.
std::vector<std::string> read_id_list(std::string_view text);
// What is wrong with the ids themselves, for a log; one line each.
std::vector<std::string> problems_of(const BehaviorSwitches& switches);

struct SwitchedBehaviors {
  Behaviors behaviors;
  std::vector<std::string> warnings;  // known ids that changed nothing for this model
};
SwitchedBehaviors switched(const Behaviors& of_profile, const BehaviorSwitches& switches);

}  // namespace gezel::prompt
