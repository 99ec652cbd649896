// cli/line_editor.h
//
// Input lines of a conversation: edited, remembered, several lines at a time. On a terminal through libedit;
// a pipe is read line by line.
#pragma once
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "cli/environment.h"

namespace gezel::cli {

struct InputLine {
  enum class Kind {
    text,
    interrupted,
    end
  };  // interrupted: Ctrl-C; end: Ctrl-D on an empty line, or the end of a pipe
  Kind kind = Kind::text;
  std::string text;
};

// A message above this is refused by read().
inline constexpr std::size_t kMaxMessage = 4 * 1024 * 1024;

class LineEditor {
 public:
  // `history`: where lines are kept between programs (mode 0600), empty = nowhere.
  static std::unique_ptr<LineEditor> open(const Environment& env, const std::filesystem::path& history);
  virtual ~LineEditor() = default;
  // One message. Several lines: a line that ends in '\' goes on in the next; a line `"""` begins a text that
  // the next `"""` ends; Alt-Enter adds a line; pasted lines stay together.
  virtual InputLine read() = 0;
};

// How single lines make a message, apart from any terminal: feed lines until one is returned.
class MessageAssembler {
 public:
  std::optional<std::string> feed(std::string line);
  // What was begun and not ended, at the end of input.
  std::optional<std::string> finish();
  void reset();
  bool open() const { return quoted_ || continued_; }

 private:
  std::string text_;
  bool quoted_ = false;
  bool continued_ = false;
};

}  // namespace gezel::cli
