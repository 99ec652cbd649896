// engine/output_capture.h
//
// What a child process prints (spec 30 section 3.8): cut into lines, cleaned, redacted, the last part kept
// for whoever has to explain a death.
#pragma once
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "base/bytes.h"

namespace gezel::engine {

class OutputCapture {
 public:
  static constexpr std::size_t kTailBytes = 64 * kKiB;
  static constexpr std::size_t kMaxLineBytes = 16 * kKiB;  // longer ones are cut in pieces

  // Called for every line, without its end, valid UTF-8 and redacted.
  using LineSink = std::function<void(std::string_view)>;
  explicit OutputCapture(LineSink sink) : sink_(std::move(sink)) {}

  // Any piece of output. Lines end at '\n' and at '\r', because progress bars repaint with the latter.
  void feed(std::string_view bytes);
  // The end of the output: a last line without an end is one too.
  void finish();
  // The last lines, whole, at most kTailBytes.
  const std::string& tail() const { return tail_; }

 private:
  void emit(std::string_view line);

  LineSink sink_;
  std::string partial_, tail_;
};

}  // namespace gezel::engine
