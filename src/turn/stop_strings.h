// turn/stop_strings.h
//
// Stop strings across any split of the text: output ends before the match, and what might still become a match is
// withheld. Linear in the text.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gezel::turn {

class StopStrings {
 public:
  explicit StopStrings(std::vector<std::string> stops);

  struct Output {
    std::string text;              // may be emitted now
    std::optional<int> matched;    // index of the stop string found; nothing more will come
  };
  // The earliest match wins; among matches that begin at the same byte the one that completes first.
  Output feed(std::string_view text);
  // The end of the text: what was withheld is released.
  std::string finish();
  std::size_t withheld() const { return tail_.size(); }

 private:
  std::vector<std::string> stops_;
  std::string tail_;
  std::size_t longest_ = 0;
  bool ended_ = false;
};

}  // namespace gezel::turn
