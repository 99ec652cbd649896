#include "grammar/char_set.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/utf8.h"

namespace gezel::grammar {

namespace {

constexpr char32_t kFirstSurrogate = 0xD800;
constexpr char32_t kLastSurrogate = 0xDFFF;

bool is_alphanumeric(char32_t c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

}  // namespace

CharSet::CharSet(std::initializer_list<Range> ranges) : ranges_(ranges) {
  normalise();
}

CharSet CharSet::all() {
  return CharSet({{0, kLastScalar}});
}

void CharSet::add(char32_t first, char32_t last) {
  ranges_.push_back({first, std::min(last, kLastScalar)});
  normalise();
}

void CharSet::add(const CharSet& other) {
  ranges_.insert(ranges_.end(), other.ranges_.begin(), other.ranges_.end());
  normalise();
}

void CharSet::normalise() {
  std::vector<Range> parts;
  for (const auto [first, last] : ranges_) {
    if (first <= last && first < kFirstSurrogate)
      parts.push_back({first, std::min<char32_t>(last, kFirstSurrogate - 1)});
    if (first <= last && last > kLastSurrogate)
      parts.push_back({std::max<char32_t>(first, kLastSurrogate + 1), last});
  }
  std::ranges::sort(parts, {}, &Range::first);
  ranges_.clear();
  for (const auto& part : parts) {
    if (!ranges_.empty() && part.first <= ranges_.back().last + 1) {
      ranges_.back().last = std::max(ranges_.back().last, part.last);
    } else {
      ranges_.push_back(part);
    }
  }
}

CharSet CharSet::complement() const {
  CharSet result;
  char32_t next = 0;
  for (const auto [first, last] : ranges_) {
    if (first > next) result.ranges_.push_back({next, first - 1});
    next = last + 1;
  }
  if (next <= kLastScalar) result.ranges_.push_back({next, kLastScalar});
  result.normalise();
  return result;
}

CharSet CharSet::minus(const CharSet& other) const {
  CharSet rest = complement();
  rest.add(other);
  return rest.complement();
}

bool CharSet::contains(char32_t c) const {
  const auto after = std::ranges::upper_bound(ranges_, c, {}, &Range::first);
  return after != ranges_.begin() && c <= std::prev(after)->last;
}

bool CharSet::overlaps(const CharSet& other) const {
  auto a = ranges_.begin();
  auto b = other.ranges_.begin();
  while (a != ranges_.end() && b != other.ranges_.end()) {
    if (a->last < b->first) {
      ++a;
    } else if (b->last < a->first) {
      ++b;
    } else {
      return true;
    }
  }
  return false;
}

std::optional<char32_t> CharSet::single() const {
  if (ranges_.size() != 1 || ranges_[0].first != ranges_[0].last) return std::nullopt;
  return ranges_[0].first;
}

char32_t take_scalar(std::string_view& text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  const std::size_t size = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  if (lead < 0x80 || size > text.size() || find_invalid_utf8(text.substr(0, size))) {
    text.remove_prefix(1);
    return lead < 0x80 ? lead : 0xFFFD;
  }
  char32_t value = lead & (0x7F >> size);
  for (std::size_t i = 1; i < size; ++i) value = value << 6 | (static_cast<unsigned char>(text[i]) & 0x3F);
  text.remove_prefix(size);
  return value;
}

void append_utf8(std::string& out, char32_t c) {
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xC0 | c >> 6);
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    out += static_cast<char>(0xE0 | c >> 12);
    out += static_cast<char>(0x80 | (c >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | c >> 18);
    out += static_cast<char>(0x80 | (c >> 12 & 0x3F));
    out += static_cast<char>(0x80 | (c >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  }
}

std::string to_utf8(char32_t c) {
  std::string out;
  append_utf8(out, c);
  return out;
}

std::string regex_char(char32_t c) {
  if (is_alphanumeric(c)) return {static_cast<char>(c)};
  return fmt::format("\\u{{{:x}}}", static_cast<std::uint32_t>(c));
}

std::string regex_class(const CharSet& set) {
  if (set.empty()) return "[^\\u{0}-\\u{10ffff}]";
  std::string out = "[";
  for (const auto [first, last] : set.ranges()) {
    out += regex_char(first);
    if (last != first) out += "-" + regex_char(last);
  }
  return out + "]";
}

}  // namespace gezel::grammar
