#include "engine/output_capture.h"

#include "base/utf8.h"
#include "engine/redact.h"

namespace gezel::engine {

void OutputCapture::feed(std::string_view bytes) {
  while (!bytes.empty()) {
    const auto end = bytes.find_first_of("\n\r");
    const auto piece = bytes.substr(0, end);
    const auto room = kMaxLineBytes - partial_.size();
    partial_ += piece.substr(0, room);
    if (piece.size() > room) {
      emit(partial_);
      partial_.clear();
      bytes.remove_prefix(room);
      continue;
    }
    if (end == std::string_view::npos) return;
    emit(partial_);
    partial_.clear();
    bytes.remove_prefix(end + 1);
  }
}

void OutputCapture::finish() {
  emit(partial_);
  partial_.clear();
}

void OutputCapture::emit(std::string_view line) {
  if (line.empty()) return;
  const std::string clean = redact(sanitize_utf8(line));
  tail_ += clean;
  tail_ += '\n';
  if (tail_.size() > kTailBytes) {
    const auto cut = tail_.find('\n', tail_.size() - kTailBytes - 1);
    tail_.erase(0, cut + 1);
  }
  sink_(clean);
}

}  // namespace gezel::engine
