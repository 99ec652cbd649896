#include "turn/stop_strings.h"

#include <algorithm>
#include <utility>

namespace gezel::turn {

StopStrings::StopStrings(std::vector<std::string> stops) {
  patterns_.reserve(stops.size());
  for (std::string& stop : stops) {
    Pattern pattern{std::move(stop), {}, 0};
    pattern.fallback.assign(pattern.text.size(), 0);
    for (std::size_t i = 1, length = 0; i < pattern.text.size(); ++i) {
      while (length > 0 && pattern.text[i] != pattern.text[length]) length = pattern.fallback[length - 1];
      if (pattern.text[i] == pattern.text[length]) ++length;
      pattern.fallback[i] = static_cast<std::uint32_t>(length);
    }
    patterns_.push_back(std::move(pattern));
  }
}

StopStrings::Output StopStrings::feed(std::string_view text) {
  if (matched_) return {{}, matched_};
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::size_t longest = 0;
    for (std::size_t index = 0; index < patterns_.size(); ++index) {
      Pattern& p = patterns_[index];
      if (p.text.empty()) continue;
      while (p.matched > 0 && text[i] != p.text[p.matched]) p.matched = p.fallback[p.matched - 1];
      if (text[i] == p.text[p.matched]) ++p.matched;
      if (p.matched == p.text.size() && p.matched > longest) {
        longest = p.matched;
        matched_ = static_cast<int>(index);
      }
    }
    if (matched_) {
      tail_.append(text.substr(0, i + 1));
      Output output{release(withheld() - longest), matched_};
      tail_.clear();
      tail_begin_ = 0;
      return output;
    }
  }
  tail_.append(text);
  std::size_t longest = 0;
  for (const Pattern& pattern : patterns_) longest = std::max(longest, pattern.matched);
  return {release(withheld() - longest), std::nullopt};
}

// Takes the first `size` bytes of what is withheld. The buffer is compacted only when half of it is released
// text, so that a long stop string does not make every byte move all the bytes behind it.
std::string StopStrings::release(std::size_t size) {
  std::string released = tail_.substr(tail_begin_, size);
  tail_begin_ += size;
  if (tail_begin_ * 2 >= tail_.size()) {
    tail_.erase(0, tail_begin_);
    tail_begin_ = 0;
  }
  return released;
}

std::string StopStrings::finish() {
  return release(withheld());
}

}  // namespace gezel::turn
