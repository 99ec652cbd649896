#include "cli/sse.h"

#include <fmt/format.h>

#include "cli/exit_codes.h"

namespace gezel::cli {

Result<> SseReader::feed(std::string_view piece, const std::function<bool(const SseEvent&)>& on_event) {
  for (const char c : piece) {
    if (after_cr_) {
      after_cr_ = false;
      if (c == '\n') continue;
    }
    if (c == '\n' || c == '\r') {
      after_cr_ = c == '\r';
      if (!end_line(on_event)) return {};
      continue;
    }
    if (line_.size() + event_.data.size() >= kMaxSseEvent) {
      return fail(ErrorKind::too_large, std::string(kCodeBadReply),
                  fmt::format("The daemon sent an event of more than {}", format_bytes(kMaxSseEvent)));
    }
    line_ += c;
  }
  return {};
}

bool SseReader::end_line(const std::function<bool(const SseEvent&)>& on_event) {
  std::string_view line = line_;
  if (std::exchange(first_line_, false) && line.starts_with("\xef\xbb\xbf")) line.remove_prefix(3);
  bool more = true;
  if (line.empty()) {
    // An event without data lines is dropped, as the standard says.
    if (has_data_) more = on_event(event_);
    event_ = {};
    has_data_ = false;
  } else if (const std::size_t colon = line.find(':');
             colon != 0) {  // a line that begins with ':' is a comment
    const std::string_view field = line.substr(0, colon);
    std::string_view value = colon == std::string_view::npos ? std::string_view() : line.substr(colon + 1);
    if (value.starts_with(' ')) value.remove_prefix(1);
    if (field == "data") {
      if (has_data_) event_.data += '\n';
      event_.data += value;
      has_data_ = true;
    } else if (field == "event") {
      event_.type = value;
    }
  }
  line_.clear();
  return more;
}

}  // namespace gezel::cli
