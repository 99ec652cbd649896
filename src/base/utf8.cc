// One decoder step serves all three uses: it classifies the bytes at an offset as a whole character, a broken
// part of a certain length, or a part that more bytes could still complete.
#include "base/utf8.h"

namespace gezel {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

enum class Kind { whole, broken, incomplete };
struct Step {
  Kind kind;
  std::size_t length;  // bytes of the character, or of the maximal ill-formed part
};

// Unicode 15, table 3-7: which second bytes a first byte allows.
Step classify(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(at);
  if (first < 0x80) return {Kind::whole, 1};
  std::size_t length = 0;
  unsigned char low = 0x80, high = 0xBF;
  if (first >= 0xC2 && first <= 0xDF) {
    length = 2;
  } else if (first >= 0xE0 && first <= 0xEF) {
    length = 3;
    if (first == 0xE0) low = 0xA0;
    if (first == 0xED) high = 0x9F;
  } else if (first >= 0xF0 && first <= 0xF4) {
    length = 4;
    if (first == 0xF0) low = 0x90;
    if (first == 0xF4) high = 0x8F;
  } else {
    return {Kind::broken, 1};
  }
  for (std::size_t i = 1; i < length; ++i) {
    if (at + i >= text.size()) return {Kind::incomplete, i};
    if (byte(at + i) < low || byte(at + i) > high) return {Kind::broken, i};
    low = 0x80;
    high = 0xBF;
  }
  return {Kind::whole, length};
}

// Bytes from `at` on that are plain ASCII, eight at a time where possible.
std::size_t ascii_run(std::string_view text, std::size_t at) {
  std::size_t end = at;
  while (end + 8 <= text.size()) {
    std::uint64_t word = 0;
    __builtin_memcpy(&word, text.data() + end, 8);
    if (word & 0x8080808080808080ULL) break;
    end += 8;
  }
  while (end < text.size() && static_cast<unsigned char>(text[end]) < 0x80) ++end;
  return end - at;
}

}  // namespace

std::optional<std::size_t> find_invalid_utf8(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    at += ascii_run(text, at);
    if (at >= text.size()) break;
    const Step step = classify(text, at);
    if (step.kind != Kind::whole) return at;
    at += step.length;
  }
  return std::nullopt;
}

std::string sanitize_utf8(std::string_view text) {
  Utf8Assembler assembler;
  std::string out = assembler.feed(text);
  out += assembler.finish();
  return out;
}

std::string Utf8Assembler::feed(std::string_view piece) {
  std::string joined;
  if (!held_.empty()) {
    joined = std::move(held_);
    joined += piece;
    held_.clear();
    piece = joined;
  }
  std::string out;
  out.reserve(piece.size());
  std::size_t at = 0;
  while (at < piece.size()) {
    const std::size_t run = ascii_run(piece, at);
    out.append(piece, at, run);
    at += run;
    if (at >= piece.size()) break;
    const Step step = classify(piece, at);
    if (step.kind == Kind::incomplete) {
      held_.assign(piece.substr(at));
      break;
    }
    if (step.kind == Kind::whole) {
      out.append(piece, at, step.length);
    } else {
      out += kReplacement;
    }
    at += step.length;
  }
  return out;
}

std::string Utf8Assembler::finish() {
  if (held_.empty()) return {};
  held_.clear();
  return std::string(kReplacement);  // an incomplete character is one maximal ill-formed part
}

}  // namespace gezel
