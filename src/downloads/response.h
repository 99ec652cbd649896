// downloads/response.h
//
// What to do with the answer to a request for a file, or for the rest of one (spec 60 section 10.3). Pure.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"

namespace gezel::downloads {

// "bytes 0-99/100", "bytes 0-99/*" or "bytes */100".
struct ContentRange {
  std::optional<Bytes> first, last, total;
};
std::optional<ContentRange> parse_content_range(std::string_view text);

struct ResponseHead {
  int status = 0;
  std::string location, etag;
  std::optional<ContentRange> content_range;
  std::optional<Bytes> content_length;
  std::string link;      // all Link headers, with commas between
  std::string xet_hash;  // X-Xet-Hash: the file's name in content-addressed storage
};

enum class Action {
  append,               // write the body after what is there
  restart,              // truncate, then write the body: the server ignored the range
  complete,             // truncate to `truncate_to`; nothing is missing, the hash decides
  redirect,             // ask at the Location
  retry,                // transient: ask again later
  retry_without_range,  // drop what is there and ask again for the whole file
  fail,                 // asking again is no use
};

struct Decision {
  Action action = Action::fail;
  std::optional<Bytes> total;  // of the whole file, when the server said so
  Bytes truncate_to = 0;
  Error error;  // of retry and fail: the reason, for people
};

// `offset` is what was asked for: 0 = the whole file, else the size of the partial file.
Decision decide(const ResponseHead& head, Bytes offset);

// The target of the first link with that relation in a Link header (RFC 8288), "" = none.
std::string link_target(std::string_view header, std::string_view relation);

// Whether the body of this status is of use at all. Bodies of errors are not read.
inline bool is_success(int status) {
  return status == 200 || status == 206;
}

}  // namespace gezel::downloads
