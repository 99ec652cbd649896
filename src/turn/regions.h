// turn/regions.h
//
// White space of the two channels, from spec 50 sections 3.3.3 and 4.3. What is removed from the content
// (blocks of reasoning, calls, scrubbed tokens) leaves a region: the removed spans and the white space
// between and around them. White space is withheld until what follows decides what becomes of it.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace gezel::turn {

// White space that is withheld at most; a longer run is released in parts of this size.
inline constexpr std::size_t kMaxHeldSpace = 64 * 1024;

// The content channel: a region at the beginning or the end leaves nothing; between two pieces it leaves a
// blank line if its white space holds a newline, a blank if it holds only blanks, nothing if there is none.
class ContentWriter {
 public:
  // `drop_leading`: white space at the very beginning is dropped even if nothing was removed there.
  explicit ContentWriter(bool drop_leading) : drop_leading_(drop_leading) {}

  // Text of the channel; what can be decided is appended to `out`.
  void text(std::string_view text, std::string& out);
  // A span was removed here.
  void removed();
  // The end of the content.
  void finish(std::string& out);
  // Something other than white space has been written.
  bool started() const { return started_; }

 private:
  void hold(std::string_view space, std::string& out);
  void settle(std::string& out);

  bool drop_leading_;
  bool started_ = false;
  bool removed_ = false;
  std::string held_;  // white space of the region so far
};

// The reasoning channel: blocks are trimmed, those that are not blank are joined with a blank line.
class ReasoningWriter {
 public:
  void begin_block() {
    in_block_ = false;
    held_.clear();
  }
  void text(std::string_view text, std::string& out);

 private:
  bool any_ = false;       // some block has text
  bool in_block_ = false;  // this block has text
  std::string held_;       // white space that is dropped if the block ends here
};

// Without white space at both ends.
std::string_view trimmed(std::string_view text);

}  // namespace gezel::turn
