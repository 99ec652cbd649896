// api/responses.h
//
// POST /v1/responses: the request as a type and its validation (spec 10 sections 7.1 to 7.3). Pure. The
// answer's wording is api/responses_form.h.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "api/chat.h"
#include "api/error.h"
#include "base/json.h"

namespace gezel::api {

// A tool as the caller knows it. A model knows it by one name, without name spaces.
struct ResponsesTool {
  enum class Kind { function, custom };
  Kind kind = Kind::function;
  std::string name_space;  // "" = none
  std::string name;
};
using ResponsesTools = std::map<std::string, ResponsesTool, std::less<>>;  // by the name that the model knows

struct ResponsesRequest {
  ChatRequest chat;
  ResponsesTools tools;
  // Members of the response that only echo the request, by name and in the order of the response.
  json::object echo;
  bool reasoning_summary = false;  // reasoning is shown as a summary
};

inline constexpr std::size_t kMaxInputItems = 65'536;
inline constexpr std::size_t kMaxNameSpaceTools = 1024;

// The name by which a model knows a tool of a name space: both joined by "__", or, where that has more than
// 64 characters, the first 50 of them, "__" and the first 12 digits of the hexadecimal SHA-256 of the name
// space, a zero byte and the name.
std::string local_tool_name(std::string_view name_space, std::string_view name);

// Validates a body. Every bad field is named, all in one message; what is well formed and cannot be done is
// refused in the order of section 7.1: `unsupported_tool`, `stored_state_not_supported`, then the rest.
ApiResult<ResponsesRequest> parse_responses_request(std::string_view body);

}  // namespace gezel::api
