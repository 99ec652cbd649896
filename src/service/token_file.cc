#include "service/token_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/json.h"
#include "base/log.h"

namespace gezel::service {
namespace {

constexpr std::array<std::string_view, 3> kGrantableScopes{"openai", "remote-inference", "cli"};
constexpr std::array<std::string_view, 4> kReservedAppIds{"root", "desktop-client", "machine-engine-client",
                                                          "web-ui"};
constexpr std::string_view kReservedPrefix = "session:";

template <std::size_t N>
bool contains(const std::array<std::string_view, N>& list, std::string_view word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

std::unexpected<Error> invalid(std::string what) {
  return fail(ErrorKind::corrupt, "tokens_invalid", std::move(what));
}

Result<std::string> required_text(const json::object& record, std::string_view key, std::size_t index) {
  const auto* value = record.if_contains(key);
  if (value == nullptr || !value->is_string())
    return invalid(fmt::format("tokens[{}].{} is not a text", index, key));
  return std::string(value->get_string());
}

Result<std::optional<std::string>> optional_text(const json::object& record, std::string_view key,
                                                 std::size_t index) {
  if (!record.contains(key)) return std::nullopt;
  GEZEL_TRY(std::string text, required_text(record, key, index));
  return text;
}

Result<TokenRecord> parse_record(const json::value& value, std::size_t index) {
  const json::object* object = value.if_object();
  if (object == nullptr) return invalid(fmt::format("tokens[{}] is not an object", index));
  TokenRecord record;
  GEZEL_TRY(record.app_id, required_text(*object, "appId", index));
  GEZEL_TRY(record.app_name, required_text(*object, "appName", index));
  GEZEL_TRY(record.token, required_text(*object, "token", index));
  GEZEL_TRY(record.created_at, required_text(*object, "createdAt", index));
  GEZEL_TRY(record.last_used_at, optional_text(*object, "lastUsedAt", index));
  GEZEL_TRY(record.kind, optional_text(*object, "kind", index));
  GEZEL_TRY(record.device_id, optional_text(*object, "deviceId", index));
  if (record.app_id.empty() || contains(kReservedAppIds, record.app_id) ||
      record.app_id.starts_with(kReservedPrefix)) {
    return invalid(fmt::format("tokens[{}].appId \"{}\" is reserved", index, record.app_id));
  }
  if (record.token.empty()) return invalid(fmt::format("tokens[{}].token is empty", index));
  if (record.kind && *record.kind != "app" && *record.kind != "device") {
    return invalid(fmt::format("tokens[{}].kind is \"{}\"; it must be app or device", index, *record.kind));
  }
  const json::array* scopes = array_at(*object, "scopes");
  if (scopes == nullptr) return invalid(fmt::format("tokens[{}].scopes is not a list", index));
  for (const json::value& scope : *scopes) {
    if (!scope.is_string() || !contains(kGrantableScopes, scope.get_string())) {
      return invalid(fmt::format("tokens[{}].scopes holds something that cannot be granted", index));
    }
    record.scopes.emplace_back(scope.get_string());
  }
  return record;
}

// Nothing when there is no such file; an unreadable one is an error, never "no file".
Result<std::optional<std::string>> read_if_there(const fs::path& path) {
  auto text = read_file(path, kMaxTokenFileBytes);
  if (text) return std::move(*text);
  if (text.error().kind == ErrorKind::not_found) return std::nullopt;
  return std::unexpected(std::move(text).error());
}

// The keys open this service: a file that was copied back or edited with a loose mode gets the right one
// again.
void keep_private(const fs::path& path) {
  constexpr unsigned kMode = 0600;
  const auto before = set_file_mode(path, kMode);
  if (!before) {
    log_warn("the API keys may be readable for others", {{"reason", before.error().message}});
  } else if (*before) {
    log_warn("a file with API keys had another mode than 0600, which it has again",
             {{"file", path.string()}, {"mode", fmt::format("{:04o}", **before)}});
  }
}

}  // namespace

Result<std::vector<TokenRecord>> parse_tokens(std::string_view text) {
  const auto parsed = parse_json(text);
  if (!parsed || !parsed->is_object()) return invalid("it is not a JSON object");
  const json::object& object = parsed->get_object();
  if (int_or(object, "version", 0) != 1) return invalid("its version is not 1");
  const json::array* tokens = array_at(object, "tokens");
  if (tokens == nullptr) return invalid("its member tokens is not a list");
  if (tokens->size() > kMaxTokenRecords) {
    return invalid(fmt::format("it has {} tokens; at most {} are allowed", tokens->size(), kMaxTokenRecords));
  }
  std::vector<TokenRecord> records;
  for (std::size_t i = 0; i < tokens->size(); ++i) {
    GEZEL_TRY(TokenRecord record, parse_record((*tokens)[i], i));
    records.push_back(std::move(record));
  }
  return records;
}

std::string serialize_tokens(const std::vector<TokenRecord>& records) {
  json::array tokens;
  for (const TokenRecord& record : records) {
    json::array scopes;
    for (const std::string& scope : record.scopes) scopes.emplace_back(scope);
    json::object object{{"appId", record.app_id},
                        {"appName", record.app_name},
                        {"scopes", std::move(scopes)},
                        {"token", record.token},
                        {"createdAt", record.created_at}};
    if (record.last_used_at) object["lastUsedAt"] = *record.last_used_at;
    if (record.kind) object["kind"] = *record.kind;
    if (record.device_id) object["deviceId"] = *record.device_id;
    tokens.push_back(std::move(object));
  }
  return to_json(json::object{{"version", 1}, {"tokens", std::move(tokens)}}) + "\n";
}

Result<std::vector<TokenRecord>> load_tokens(const fs::path& home) {
  const fs::path primary = home / kTokenFile;
  const fs::path backup = home / kTokenBackup;
  keep_private(primary);
  keep_private(backup);
  GEZEL_TRY(const auto text, read_if_there(primary));
  if (text) {
    if (auto records = parse_tokens(*text)) return records;
  }
  GEZEL_TRY(const auto saved, read_if_there(backup));
  if (!text && !saved) return std::vector<TokenRecord>{};
  if (saved) {
    if (auto records = parse_tokens(*saved)) {
      GEZEL_CHECK(write_file_atomic(primary, *saved));
      log_warn("tokens.json was missing or damaged and has been repaired from its backup");
      return records;
    }
  }
  const std::string primary_problem = text ? parse_tokens(*text).error().message : "it is missing";
  const std::string backup_problem = saved ? parse_tokens(*saved).error().message : "it is missing";
  return fail(
      ErrorKind::corrupt, "tokens_invalid",
      fmt::format("{} cannot be used ({}), and neither can {} ({}). Repair one of them, or move both away to "
                  "start with a new API key.",
                  primary.string(), primary_problem, backup.string(), backup_problem));
}

Result<> save_tokens(const fs::path& home, const std::vector<TokenRecord>& records) {
  const std::string text = serialize_tokens(records);
  GEZEL_CHECK(write_file_atomic(home / kTokenBackup, text));
  return write_file_atomic(home / kTokenFile, text);
}

}  // namespace gezel::service
