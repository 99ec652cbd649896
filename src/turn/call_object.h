// turn/call_object.h
//
// A call written as a JSON object, from spec 50 section 5:
//   {name|tool_name|tool|function: NAME, arguments|parameters|args|input: {..} or a string of JSON}
//   {id?, type: "function", function: {a call object}}
//   {NAME: {..}}     one key that resolves to a known tool
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "turn/names.h"

namespace gezel::turn {

bool is_name_key(std::string_view key);       // name, tool_name, tool, function
bool is_arguments_key(std::string_view key);  // arguments, parameters, args, input
bool is_id_key(std::string_view key);         // id, tool_call_id, call_id

struct CallObject {
  std::string name;                        // as written
  std::string id;                          // may be empty
  const json::value* arguments = nullptr;  // into the object; null when there is no such key
  bool keyed = false;                      // {NAME: {..}}
};

// Nothing if `value` is no call object. A name that no tool has must be a NAME.
std::optional<CallObject> as_call_object(const json::value& value, const ToolNames& tools);

struct ReadArguments {
  std::optional<json::object> object;  // nothing: malformed
  int repair = 0;                      // level of the tolerant reader, of a string that was parsed once more
};
// Absent or null arguments are {}.
ReadArguments read_call_arguments(const json::value* arguments);

}  // namespace gezel::turn
