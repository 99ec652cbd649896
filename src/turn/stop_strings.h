// turn/stop_strings.h
//
// Stop strings across any split of the text: output ends before the match, and what might still become a
// match is withheld, no more and no less. Linear in the text for each stop string.
//
// Text and stop strings are bytes. When both are UTF-8 and the text arrives in whole characters, so does what
// comes out.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gezel::turn {

class StopStrings {
 public:
  // Empty stop strings match nothing.
  explicit StopStrings(std::vector<std::string> stops);

  struct Output {
    std::string text;            // may be emitted now
    std::optional<int> matched;  // index of the stop string found; nothing more will come
  };
  // The stop string that completes first ends the text; of several that complete at the same byte, the
  // longest one does (it begins first), then the one with the lowest index. So the result does not depend on
  // what would have come later. After a match, text is ignored and `matched` stays.
  Output feed(std::string_view text);
  // The end of the text: what was withheld is released.
  std::string finish();
  std::size_t withheld() const { return tail_.size() - tail_begin_; }

 private:
  // Knuth-Morris-Pratt: `matched` is the length of the longest prefix of the stop string that the text so far
  // ends with.
  struct Pattern {
    std::string text;
    std::vector<std::uint32_t> fallback;  // of each prefix: its longest proper prefix that is also its suffix
    std::size_t matched = 0;
  };

  std::string release(std::size_t size);

  std::vector<Pattern> patterns_;
  // Withheld text is tail_ from tail_begin_; what is in front of it was released and is dropped now and then.
  std::string tail_;
  std::size_t tail_begin_ = 0;
  std::optional<int> matched_;
};

}  // namespace gezel::turn
