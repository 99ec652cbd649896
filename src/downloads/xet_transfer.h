// downloads/xet_transfer.h
//
// One attempt to get a file out of content-addressed storage (spec 60 section 10.5), when the hub redirects
// to an address that refuses to give it whole. Blocking.
#pragma once
#include <string>

#include "base/bytes.h"
#include "downloads/http_client.h"
#include "downloads/transfer.h"

namespace gezel::downloads::xet {

// Between tries of one segment; a failure after the last counts against the budget of the file.
inline constexpr Millis kSegmentDelays[] = {Millis(400), Millis(1'200), Millis(2'500)};

// What a hub's redirect says of a file.
struct StoredFile {
  std::string hub;         // the address that redirected
  std::string access_url;  // the hub's, for storage and token; may be relative to `hub`
  std::string hash;        // 64 hexadecimal digits
};

// Where the file goes.
class FileSink {
 public:
  virtual ~FileSink() = default;
  virtual Bytes have() const = 0;  // what is there already, of the beginning
  virtual Result<> begin(Bytes total) = 0;
  virtual Result<> write(std::string_view data) = 0;  // behind what is there
};

// Terms that are there already are not asked for. Errors of kind `unavailable` may go away; others:
// bad_reconstruction, bad_chunk, gated_or_denied, bad_url, cancelled, those of the sink.
Result<> fetch_stored(HttpClient& client, Waiter& waiter, const StoredFile& file, const AccessToken& token,
                      FileSink& sink, const Cancellation& cancellation);

}  // namespace gezel::downloads::xet
