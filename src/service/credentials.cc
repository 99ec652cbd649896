#include "service/credentials.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "service/runtime_files.h"
#include "service/token_file.h"

namespace gezel::service {
namespace {

constexpr std::size_t kSessionTokenBytes = 24;  // root and client: 32 characters
constexpr std::size_t kKeyBytes = 32;           // persisted keys: 43 characters
constexpr std::size_t kMaxTokenLength = 512;    // of what a caller presents
constexpr std::string_view kDefaultApp = "default";

TokenRecord new_api_key(const Clock& clock, Entropy& entropy) {
  TokenRecord record;
  record.app_id = kDefaultApp;
  record.app_name = "API key";
  record.scopes = {"openai"};
  record.token = random_token(entropy, kKeyBytes);
  record.created_at = iso_time(clock.wall_now());
  return record;
}

const TokenRecord* find_default(const std::vector<TokenRecord>& records) {
  const auto found = std::find_if(records.begin(), records.end(),
                                  [](const TokenRecord& record) { return record.app_id == kDefaultApp; });
  return found == records.end() ? nullptr : &*found;
}

class StoredCredentials final : public Credentials {
 public:
  StoredCredentials(fs::path home, const Clock& clock, Entropy& entropy, std::vector<TokenRecord> records)
      : home_(std::move(home)),
        clock_(clock),
        entropy_(entropy),
        root_(random_token(entropy, kSessionTokenBytes)),
        client_(random_token(entropy, kSessionTokenBytes)),
        records_(std::move(records)) {
    index();
  }

  std::optional<Credential> authenticate(std::string_view token) override {
    if (token.empty() || token.size() > kMaxTokenLength) return std::nullopt;
    const std::string hash = sha256_hex(token);
    // Every entry is compared, so that the time says nothing about which one matched, or how nearly.
    const Entry* match = nullptr;
    for (const Entry& entry : entries_) {
      if (equal_constant_time(entry.hash, hash) && match == nullptr) match = &entry;
    }
    if (match == nullptr) return std::nullopt;
    if (match->record) records_[*match->record].last_used_at = iso_time(clock_.wall_now());
    return match->credential;
  }

  std::string client_token() const override { return client_; }
  std::string root_token() const override { return root_; }
  std::string api_key() const override {
    const TokenRecord* record = find_default(records_);
    return record == nullptr ? std::string() : record->token;
  }

  Result<std::string> rotate_api_key() override {
    std::vector<TokenRecord> changed = records_;
    std::erase_if(changed, [](const TokenRecord& record) { return record.app_id == kDefaultApp; });
    changed.push_back(new_api_key(clock_, entropy_));
    // What is in memory follows the file: a key that was not written must not work, nor an old one stop
    // working.
    GEZEL_CHECK(save_tokens(home_, changed));
    records_ = std::move(changed);
    index();
    return api_key();
  }

 private:
  struct Entry {
    std::string hash;
    Credential credential;
    std::optional<std::size_t> record;  // in records_
  };

  // In-memory credentials come first: they win over persisted ones with the same id.
  void index() {
    entries_.clear();
    entries_.push_back({sha256_hex(root_), {"root", "root", {"root"}}, std::nullopt});
    entries_.push_back(
        {sha256_hex(client_), {"desktop-client", "gezel command line", {"ui", "openai"}}, std::nullopt});
    for (std::size_t i = 0; i < records_.size(); ++i) {
      const TokenRecord& record = records_[i];
      entries_.push_back({sha256_hex(record.token), {record.app_id, record.app_name, record.scopes}, i});
    }
  }

  fs::path home_;
  const Clock& clock_;
  Entropy& entropy_;
  std::string root_, client_;
  std::vector<TokenRecord> records_;
  std::vector<Entry> entries_;
};

// Records that hold the API key, made and written when it was missing. Needs the home's instance lock.
Result<std::vector<TokenRecord>> load_with_key(const fs::path& home, const Clock& clock, Entropy& entropy) {
  GEZEL_CHECK(make_private_folder(home));
  GEZEL_TRY(std::vector<TokenRecord> records, load_tokens(home));
  if (find_default(records) == nullptr) {
    records.push_back(new_api_key(clock, entropy));
    GEZEL_CHECK(save_tokens(home, records));
  }
  return records;
}

}  // namespace

bool Credential::allows(std::string_view scope) const {
  return std::any_of(scopes.begin(), scopes.end(),
                     [&](const std::string& granted) { return granted == scope || granted == "root"; });
}

Result<std::unique_ptr<Credentials>> Credentials::open(const fs::path& home, const Clock& clock,
                                                       Entropy& entropy) {
  GEZEL_TRY(std::vector<TokenRecord> records, load_with_key(home, clock, entropy));
  return std::make_unique<StoredCredentials>(home, clock, entropy, std::move(records));
}

Result<std::string> read_or_create_api_key(const fs::path& home, const Clock& clock, Entropy& entropy) {
  const auto stored = [&]() -> Result<std::string> {
    GEZEL_TRY(const std::vector<TokenRecord> records, load_tokens(home));
    const TokenRecord* record = find_default(records);
    return record == nullptr ? std::string() : record->token;
  };
  GEZEL_TRY(std::string key, stored());
  if (!key.empty()) return key;
  // A daemon that starts at this moment makes a key as well; only one of us may.
  auto lock = InstanceLock::acquire(home);
  if (!lock) {
    GEZEL_TRY(key, stored());
    if (!key.empty()) return key;
    return std::unexpected(std::move(lock).error());
  }
  GEZEL_TRY(const std::vector<TokenRecord> records, load_with_key(home, clock, entropy));
  return find_default(records)->token;
}

}  // namespace gezel::service
