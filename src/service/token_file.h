// service/token_file.h
//
// tokens.json (spec 10 section 4): the keys that outlive the daemon. Every change is committed to
// `tokens.json.bak` first and then to `tokens.json`, each whole or not at all, so that one of the two is
// always good.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "base/result.h"

namespace gezel::service {

inline constexpr std::string_view kTokenFile = "tokens.json";
inline constexpr std::string_view kTokenBackup = "tokens.json.bak";
inline constexpr Bytes kMaxTokenFileBytes = 4 * kMiB;
inline constexpr std::size_t kMaxTokenRecords = 4096;

struct TokenRecord {
  std::string app_id, app_name;
  std::vector<std::string> scopes;
  std::string token;
  std::string created_at;                   // ISO
  std::optional<std::string> last_used_at;  // ISO; kept in memory while the daemon runs
  std::optional<std::string> kind;          // app | device
  std::optional<std::string> device_id;
  bool operator==(const TokenRecord&) const = default;
};

// Error `tokens_invalid`: another version, a member of the wrong type, a scope that cannot be granted, an
// unknown kind, or an app id that belongs to the service itself.
Result<std::vector<TokenRecord>> parse_tokens(std::string_view text);
std::string serialize_tokens(const std::vector<TokenRecord>& records);

// The records of a home; none when it has no file yet. A primary that is missing or cannot be trusted is
// repaired from a good backup. Whoever else may read or write one of the two files by its mode may not any
// longer afterwards (0600); the log says so. When neither is good: `tokens_invalid`, and both files stay as
// they are.
Result<std::vector<TokenRecord>> load_tokens(const fs::path& home);
Result<> save_tokens(const fs::path& home, const std::vector<TokenRecord>& records);

}  // namespace gezel::service
