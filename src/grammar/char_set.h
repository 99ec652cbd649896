// grammar/char_set.h
//
// Sets of Unicode scalar values (surrogates belong to none), and text to and from them.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gezel::grammar {

inline constexpr char32_t kLastScalar = 0x10FFFF;

class CharSet {
 public:
  struct Range {
    char32_t first = 0;
    char32_t last = 0;  // inclusive
    bool operator==(const Range&) const = default;
  };

  CharSet() = default;
  CharSet(std::initializer_list<Range> ranges);
  static CharSet all();

  void add(char32_t first, char32_t last);
  void add(const CharSet& other);
  CharSet complement() const;
  CharSet minus(const CharSet& other) const;
  bool contains(char32_t c) const;
  bool overlaps(const CharSet& other) const;
  bool empty() const { return ranges_.empty(); }
  // The only member, if there is exactly one.
  std::optional<char32_t> single() const;
  // Sorted, disjoint, not touching, without surrogates.
  const std::vector<Range>& ranges() const { return ranges_; }
  bool operator==(const CharSet&) const = default;

 private:
  void normalise();
  std::vector<Range> ranges_;
};

// The next scalar value of UTF-8 text, which becomes shorter; ill-formed bytes come out as U+FFFD one by one.
// `text` must not be empty.
char32_t take_scalar(std::string_view& text);
void append_utf8(std::string& out, char32_t c);
std::string to_utf8(char32_t c);

// As a class of the regular expressions that the library reads ("[a-z\u{e9}]"): letters and digits as they
// are, all else escaped. An empty set becomes a class that matches nothing.
std::string regex_class(const CharSet& set);
// The same for one character outside a class.
std::string regex_char(char32_t c);

}  // namespace gezel::grammar
