// downloads/transfer.h
//
// One file from one address, however often the connection breaks (spec 60 sections 10.3 and 10.4): resumes
// where the partial file ends, follows redirects within the rules, retries within the budget. Blocking; runs
// on a thread that may wait.
#pragma once
#include <functional>
#include <optional>
#include <string>

#include "base/files.h"
#include "base/ids.h"
#include "downloads/http_client.h"
#include "downloads/retry_budget.h"

namespace gezel::downloads {

inline constexpr int kMaxRedirects = 5;
inline constexpr Bytes kMaxFileBytes = Bytes{2} << 40;  // 2 TiB: no model is larger
inline constexpr int kSmallAttempts = 3;                // of small requests such as listings

// Shown to exactly one origin, and to nobody after a redirect to another.
struct AccessToken {
  std::string origin;  // Url::origin()
  std::string value;   // "" = none
};

struct FileRequest {
  std::string url;
  fs::path partial;          // is written to; stays on failure
  Bytes expected_bytes = 0;  // for progress while the server has not said; 0 = unknown
  AccessToken token;
  // Somebody else's choice of a host: it and those it leads to must have public addresses (reach.h), unless
  // `url` itself names this machine.
  bool public_only = false;
};

struct Retry {
  int attempt = 0, most_attempts = 0;  // the one about to start, 1-based
  Millis delay{};
  Error reason;
};

struct TransferEvents {
  std::function<void(Bytes written, Bytes total)> progress;  // after every piece that was written
  std::function<void(const Retry&)> retrying;
};

struct Transferred {
  Bytes bytes = 0;
  // Of the whole file when every byte of it passed through here; else it has to be read.
  std::optional<std::string> sha256;
};

// One page of a listing.
struct Page {
  std::string text;
  std::string link;  // Link headers of the answer (link_target())
};

// The beginning of a file, as much of it as its reader needs (prefix.cc).
struct PrefixRequest {
  std::string url;
  Bytes first_bytes = 256 * kKiB;  // looked at first; each next look has twice as many
  Bytes most_bytes = 32 * kMiB;
  Bytes expected_bytes = 0;  // of the whole file, for a host that does not say; 0 = unknown
  AccessToken token;
  std::string unless_etag;   // of an earlier answer: a file that still has it is not read again
  bool public_only = false;  // as in FileRequest
};

// Whether what is here of the file is enough; `file_bytes` is the size of all of it.
using PrefixReader = std::function<bool(std::string_view beginning, Bytes file_bytes)>;

struct Prefix {
  Bytes file_bytes = 0;    // of the whole file
  Bytes read_bytes = 0;    // that came from the host
  std::string etag;        // "" = the host gives none
  bool unchanged = false;  // it still has `unless_etag`; nothing was read
};

class Transfers {
 public:
  Transfers(HttpClient& client, Waiter& waiter, Entropy& entropy, RetryRules rules = {});

  // The partial file is complete and synced when it succeeds. Errors: gated_or_denied, file_not_on_host,
  // bad_url, insufficient_disk, cancelled, ...; after the budget is spent the last reason with the number of
  // attempts.
  Result<Transferred> fetch(const FileRequest& request, const TransferEvents& events,
                            const Cancellation& cancellation) const;

  // By ranges; of a host that knows none from the start, as far as it is needed. `enough` is asked again and
  // again, and for the last time with the whole file. Errors: as fetch(); `header_too_large` when it wants
  // more than `most_bytes`, `unknown_size`.
  Result<Prefix> fetch_prefix(const PrefixRequest& request, const PrefixReader& enough,
                              const Cancellation& cancellation) const;

  // A small document. Error `too_large` beyond `limit`.
  Result<std::string> fetch_text(const std::string& url, Bytes limit, const AccessToken& token,
                                 const Cancellation& cancellation) const;
  // The same with what the answer says about further pages.
  Result<Page> fetch_page(const std::string& url, Bytes limit, const AccessToken& token,
                          const Cancellation& cancellation) const;

 private:
  HttpClient& client_;
  Waiter& waiter_;
  Entropy& entropy_;
  RetryRules rules_;
};

}  // namespace gezel::downloads
