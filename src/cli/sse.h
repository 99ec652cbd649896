// cli/sse.h
//
// Server-sent events as bytes arrive (HTML Living Standard, section 9.2.6): pieces in, events out, whatever
// the split.
#pragma once
#include <functional>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"

namespace gezel::cli {

struct SseEvent {
  std::string type;  // "" = message
  std::string data;  // lines joined by '\n'
};

// An event larger than this is an error: no frame of ours comes near.
inline constexpr Bytes kMaxSseEvent = 8 * kMiB;

class SseReader {
 public:
  // Calls `on_event` for each event that `piece` completes; comments and unknown fields are skipped.
  // `on_event` may return false to stop reading: the rest of the piece is dropped. Errors: `bad_reply` for an
  // event above the limit.
  Result<> feed(std::string_view piece, const std::function<bool(const SseEvent&)>& on_event);

 private:
  bool end_line(const std::function<bool(const SseEvent&)>& on_event);

  std::string line_;
  SseEvent event_;
  bool has_data_ = false;
  bool first_line_ = true;
  bool after_cr_ = false;  // a '\n' directly after '\r' belongs to the same line end
};

}  // namespace gezel::cli
