#include "api/exchange.h"

#include <algorithm>

namespace gezel::api {
namespace {

std::string_view trim(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

}  // namespace

std::optional<std::string_view> find_header(const Headers& headers, std::string_view lower_case_name) {
  const auto found = std::ranges::find(headers, lower_case_name, &std::pair<std::string, std::string>::first);
  if (found == headers.end()) return std::nullopt;
  return found->second;
}

std::string session_key(std::string_view app_id, std::string_view name) {
  name = trim(name);
  if (name.empty() || name.size() > kMaxSessionName) return {};
  // An application id never holds a colon, so two applications cannot make the same key.
  return std::string(app_id) + ":" + std::string(name);
}

std::string affinity_key(const Headers& headers, std::string_view prompt_cache_key, std::string_view app_id) {
  const std::string_view candidates[] = {
      find_header(headers, "x-gezel-session").value_or(""),
      find_header(headers, "x-gezel-external-conversation-id").value_or(""),
      prompt_cache_key,
      find_header(headers, "session_id").value_or(""),
      find_header(headers, "x-session-id").value_or(""),
  };
  for (const std::string_view candidate : candidates) {
    if (auto key = session_key(app_id, candidate); !key.empty()) return key;
  }
  return {};
}

}  // namespace gezel::api
