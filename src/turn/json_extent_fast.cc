// The two ways past the byte-by-byte automaton of json_extent.cc: strict JSON in a straight line, and runs of
// bytes that do not change the state. Both take only what the automaton would take with the same result, so
// they may stop anywhere; the tests compare them with feeding single bytes, where neither has anything to
// take.
#include <algorithm>

#include "turn/json_chars.h"
#include "turn/json_extent.h"
#include "turn/json_number.h"

namespace gezel::turn {
namespace {

unsigned char byte_at(std::string_view text, std::size_t at) {
  return static_cast<unsigned char>(text[at]);
}

std::size_t skip_space(std::string_view text, std::size_t at) {
  while (at < text.size() && is_json_space(byte_at(text, at))) ++at;
  return at;
}

// The end of the plain text at `at`: the first quote, backslash or control character.
std::size_t skip_plain(std::string_view text, std::size_t at, char quote) {
  while (at < text.size() && text[at] != quote && text[at] != '\\' && byte_at(text, at) >= 0x20) ++at;
  return at;
}

// What a backslash and `c` stand for, if it is one character; else 0.
char simple_escape(char c) {
  switch (c) {
    case 'b':
      return '\b';
    case 'f':
      return '\f';
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
    case '"':
    case '\\':
    case '/':
      return c;
    default:
      return 0;
  }
}

}  // namespace

// Takes tokens of strict JSON that lie whole in `text`, including the character that shows that they end, and
// returns how much that was. Stops in front of everything else.
std::size_t JsonExtent::take_strict(std::string_view text) {
  const std::size_t base = offset_;
  std::size_t taken = 0;
  // A string without escapes at `at`, followed by one of `followers`. Its end, or 0.
  const auto string_at = [&](std::size_t at, bool is_key, char follower, char other) -> std::size_t {
    const std::size_t end = skip_plain(text, at + 1, '"');
    if (end >= text.size() || text[end] != '"') return 0;
    const std::size_t next = skip_space(text, end + 1);
    if (next >= text.size() || (text[next] != follower && text[next] != other)) return 0;
    events_->begin_string(is_key, base + at);
    if (end > at + 1) events_->string_part(text.substr(at + 1, end - at - 1));
    events_->end_string(base + end + 1);
    return end + 1;
  };

  while (status_ == JsonStatus::incomplete) {
    const std::size_t at = skip_space(text, taken);
    if (at >= text.size()) break;
    const char c = text[at];
    offset_ = base + at;
    switch (state_) {
      case State::first_key:
      case State::next_key: {
        const std::size_t end = c == '"' ? string_at(at, true, ':', ':') : 0;
        if (end == 0) return taken;
        taken = skip_space(text, end) + 1;
        state_ = State::value;
        break;
      }
      case State::first_element:
      case State::next_element:
      case State::value: {
        if (c == '{' || c == '[') {
          if (depth_ == kMaxJsonDepth) return taken;
          open(c == '{');
          taken = at + 1;
          break;
        }
        if (depth_ == 0) return taken;
        const char close = in_object() ? '}' : ']';
        if (c == '"') {
          const std::size_t end = string_at(at, false, ',', close);
          if (end == 0) return taken;
          taken = end;
        } else {
          std::size_t end = at;
          while (end < text.size() && is_json_word(byte_at(text, end))) ++end;
          if (end >= text.size() || text[end] == ':') return taken;
          const std::string_view token = text.substr(at, end - at);
          if (!is_json_number(token) && !is_json_literal(token)) return taken;
          events_->scalar(token, base + at, base + end);
          taken = end;
        }
        state_ = State::after;
        break;
      }
      case State::after:
        if (c == ',') {
          state_ = in_object() ? State::next_key : State::next_element;
        } else if (c == (in_object() ? '}' : ']')) {
          close(c == '}');
        } else {
          return taken;
        }
        taken = at + 1;
        break;
      default:
        return taken;
    }
  }
  return taken;
}

// Takes what of the front of `text` does not change the state, and returns its size.
std::size_t JsonExtent::take_run(std::string_view text) {
  std::size_t size = 0;
  switch (state_) {
    case State::string: {
      const char quote = delimiter_ == Delimiter::double_quote ? '"' : '\'';
      while (true) {
        const std::size_t end = skip_plain(text, size, quote);
        if (end > size) emit(text.substr(size, end - size));
        size = end;
        if (text.size() - size < 2 || text[size] != '\\') return size;
        const char escaped = simple_escape(text[size + 1]);
        if (escaped == 0) return size;
        emit({&escaped, 1});
        size += 2;
      }
    }
    case State::raw:
    case State::star: {
      const std::string_view ends = state_ == State::star ? "<*\"" : star_ends_strings_ ? "<*" : "<";
      size = std::min(text.find_first_of(ends), text.size());
      if (size > 0) emit(text.substr(0, size));
      return size;
    }
    case State::token:
    case State::bare_key:
      while (size < text.size() && is_json_word(byte_at(text, size))) ++size;
      token_.append(text, 0, size);
      return size;
    case State::quote:
      size = skip_space(text, 0);
      held_.append(text, 0, size);
      return size;
    case State::first_element:
    case State::next_element:
    case State::value:
    case State::first_key:
    case State::next_key:
    case State::after:
      return take_strict(text);
    default:
      return 0;
  }
}

}  // namespace gezel::turn
