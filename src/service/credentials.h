// service/credentials.h
//
// Who may call (spec 10 sections 1.4.5 and 4): the root token of this process, the client token of
// runtime/auth-token, and the keys of tokens.json. Looked up by hash, in constant time.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/files.h"
#include "base/ids.h"
#include "base/result.h"

namespace gezel::service {

struct Credential {
  std::string app_id;  // "root", "desktop-client", "default", ...
  std::string app_name;
  std::vector<std::string> scopes;
  bool allows(std::string_view scope) const;  // root satisfies every scope
};

class Credentials {
 public:
  // Reads <home>/tokens.json (repairing it from .bak), creates the API key on the first start, makes fresh
  // root and client tokens. A file that cannot be trusted is an error and is left untouched.
  static Result<std::unique_ptr<Credentials>> open(const fs::path& home, const Clock& clock,
                                                   Entropy& entropy);
  virtual ~Credentials() = default;

  virtual std::optional<Credential> authenticate(std::string_view token) = 0;
  virtual std::string client_token() const = 0;  // for runtime/auth-token
  virtual std::string root_token() const = 0;    // never leaves the process
  virtual std::string api_key() const = 0;       // app id `default`
  virtual Result<std::string> rotate_api_key() = 0;
};

// The API key of a home without a running daemon; creates it when there is none. For `gezel key`.
Result<std::string> read_or_create_api_key(const fs::path& home, const Clock& clock, Entropy& entropy);

}  // namespace gezel::service
