#include "api/cache_headers.h"

#include <fmt/format.h>

#include <algorithm>

#include "api/field_reader.h"

namespace gezel::api {
namespace {

constexpr std::string_view kParent = "x-gezel-parent", kEphemeral = "x-gezel-ephemeral",
                           kDebug = "x-gezel-debug";

std::unexpected<ApiError> wrong(std::string_view header, std::string_view value, std::string_view may_be) {
  return std::unexpected(invalid_request(
      "invalid_header", fmt::format("{}: is \"{}\"; it must be {}", header, excerpt(value), may_be),
      std::string(header)));
}

ApiResult<void> read_switch(const Headers& headers, std::string_view name, bool& out) {
  const auto value = find_header(headers, name);
  if (!value) return {};
  if (*value != "0" && *value != "1") return wrong(name, *value, "1 or 0");
  out = *value == "1";
  return {};
}

}  // namespace

ApiResult<void> read_cache_headers(const Headers& headers, std::string_view app_id,
                                   prompt::GenerateRequest& request) {
  if (const auto parent = find_header(headers, kParent)) {
    request.parent_session = session_key(app_id, *parent);
    if (request.parent_session.empty())
      return wrong(kParent, *parent, fmt::format("a session's name of 1 to {} characters", kMaxSessionName));
  }
  if (auto read = read_switch(headers, kEphemeral, request.ephemeral); !read) return read;
  return read_switch(headers, kDebug, request.prefix_snippets);
}

std::string prefix_break_header(const engine::PrefixBreak& found) {
  std::string out = fmt::format("matched={}, previous={}", found.matched, found.previous);
  if (found.at_message) out += fmt::format(", at_message={}", *found.at_message);
  return out;
}

}  // namespace gezel::api
