// turn/marker_set.h
//
// Which of many markers begin at a place of the text. Markers stand sorted, so those that agree with the text
// so far are one range, and every byte of the text narrows it.
#pragma once
#include <bitset>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gezel::turn {

class MarkerSet {
 public:
  // A marker has two bytes or more. `id` is what a match returns, ascending; `any_case` compares without
  // regard to the case of ASCII letters.
  void add(std::string_view marker, int id, bool any_case = false);
  // After the last add.
  void build();

  // A marker can begin with this byte.
  bool may_begin(char c) const { return first_[static_cast<unsigned char>(c)]; }
  // A marker can begin with this text, as far as its first two bytes tell.
  bool may_begin(std::string_view text) const {
    if (text.size() < 2) return !text.empty() && may_begin(text.front());
    return pairs_[pair(text[0], text[1])];
  }

  struct Match {
    int id = 0;
    std::size_t size = 0;
  };
  static constexpr std::size_t kMaxMatches = 4;
  struct Found {
    Match matches[kMaxMatches];  // the longest first; of equal length, the one added first
    std::size_t count = 0;
    bool undecided = false;  // the text ends inside a marker that is longer than every match
  };
  // The markers that begin at the start of `text`.
  Found find(std::string_view text) const;

 private:
  struct Entry {
    std::string text;
    int id;
  };
  static std::size_t pair(char a, char b) {
    return static_cast<std::size_t>(static_cast<unsigned char>(a)) << 8 | static_cast<unsigned char>(b);
  }
  static void find_in(const std::vector<Entry>& entries, std::string_view text, bool fold, Found& found);

  std::vector<Entry> exact_, folded_;
  std::bitset<256> first_;
  std::bitset<65536> pairs_;
};

}  // namespace gezel::turn
