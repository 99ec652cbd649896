#include "turn/call_object.h"

#include <algorithm>
#include <array>

#include "turn/input.h"
#include "turn/tolerant_json.h"

namespace gezel::turn {
namespace {

constexpr auto kNameKeys = std::to_array<std::string_view>({"name", "tool_name", "tool", "function"});
constexpr auto kArgumentKeys = std::to_array<std::string_view>({"arguments", "parameters", "args", "input"});
constexpr auto kIdKeys = std::to_array<std::string_view>({"id", "tool_call_id", "call_id"});

// The first of `keys` whose value is a string.
template <std::size_t N>
const json::string* string_of(const json::object& object, const std::array<std::string_view, N>& keys) {
  for (const std::string_view key : keys) {
    const json::value* value = object.if_contains(key);
    if (value && value->is_string()) return &value->get_string();
  }
  return nullptr;
}

bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= kMaxName && is_name_start(text.front()) &&
         std::ranges::all_of(text, is_name_char);
}

}  // namespace

bool is_name_key(std::string_view key) {
  return std::ranges::find(kNameKeys, key) != kNameKeys.end();
}
bool is_arguments_key(std::string_view key) {
  return std::ranges::find(kArgumentKeys, key) != kArgumentKeys.end();
}
bool is_id_key(std::string_view key) {
  return std::ranges::find(kIdKeys, key) != kIdKeys.end();
}

std::optional<CallObject> as_call_object(const json::value& value, const ToolNames& tools) {
  const json::object* object = value.if_object();
  if (!object) return std::nullopt;
  const json::string* id = string_of(*object, kIdKeys);
  const std::string own_id = id ? std::string(*id) : std::string();

  // The OpenAI nesting; a call object inside has no further nesting.
  if (const json::value* inner = object->if_contains("function"); inner && inner->is_object()) {
    if (inner->get_object().contains("function") && !string_of(inner->get_object(), kNameKeys)) {
      return std::nullopt;
    }
    auto call = as_call_object(*inner, tools);
    if (call && call->id.empty()) call->id = own_id;
    return call;
  }

  CallObject call;
  call.id = own_id;
  if (const json::string* name = string_of(*object, kNameKeys)) {
    call.name = std::string(*name);
    if (!is_name(call.name) && !tools.resolve(call.name)) return std::nullopt;
    for (const std::string_view key : kArgumentKeys) {
      call.arguments = object->if_contains(key);
      if (call.arguments) break;
    }
    return call;
  }
  if (object->size() == 1 && object->begin()->value().is_object() && tools.resolve(object->begin()->key())) {
    call.name = std::string(object->begin()->key());
    call.arguments = &object->begin()->value();
    call.keyed = true;
    return call;
  }
  return std::nullopt;
}

ReadArguments read_call_arguments(const json::value* arguments) {
  if (!arguments || arguments->is_null()) return {json::object(), 0};
  if (const json::object* object = arguments->if_object()) return {*object, 0};
  if (const json::string* text = arguments->if_string()) {
    JsonRead read = read_arguments(*text);
    if (read.status == JsonStatus::complete && read.value.is_object()) {
      return {std::move(read.value.get_object()), read.level};
    }
  }
  return {};
}

}  // namespace gezel::turn
