#include "protocol/json_reader.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/json.h"

namespace gezel::protocol {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_space(char c) {
  return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

// Four hexadecimal digits at the start of `text`, or nothing.
std::optional<unsigned> four_hex(std::string_view text) {
  unsigned value = 0;
  if (text.size() < 4) return std::nullopt;
  const auto [end, code] = std::from_chars(text.data(), text.data() + 4, value, 16);
  if (code != std::errc{} || end != text.data() + 4) return std::nullopt;
  return value;
}

void append_utf8(std::string& out, unsigned code_point) {
  const auto byte = [&](unsigned value) { out.push_back(static_cast<char>(value)); };
  if (code_point < 0x80) {
    byte(code_point);
  } else if (code_point < 0x800) {
    byte(0xc0 | code_point >> 6);
    byte(0x80 | (code_point & 0x3f));
  } else if (code_point < 0x10000) {
    byte(0xe0 | code_point >> 12);
    byte(0x80 | (code_point >> 6 & 0x3f));
    byte(0x80 | (code_point & 0x3f));
  } else {
    byte(0xf0 | code_point >> 18);
    byte(0x80 | (code_point >> 12 & 0x3f));
    byte(0x80 | (code_point >> 6 & 0x3f));
    byte(0x80 | (code_point & 0x3f));
  }
}

}  // namespace

void JsonReader::skip_space() {
  while (position_ < text_.size() && is_space(text_[position_])) ++position_;
}

bool JsonReader::open(char bracket, std::string_view expected) {
  if (failed()) return false;
  skip_space();
  if (position_ == text_.size() || text_[position_] != bracket) return fail_expected(found(), expected);
  ++position_;
  return true;
}

JsonReader::Step JsonReader::next_member(bool first, std::string_view& key) {
  const auto failed_with = [&](std::string_view expected) {
    fail_syntax(expected);
    return Step::failed;
  };
  skip_space();
  if (position_ < text_.size() && text_[position_] == '}') {
    ++position_;
    return Step::end;
  }
  if (!first) {
    if (position_ == text_.size() || text_[position_] != ',') return failed_with("',' or '}'");
    ++position_;
    skip_space();
  }
  if (position_ == text_.size() || text_[position_] != '"') return failed_with("a member name");
  bool has_escapes = false;
  if (!string_token(key, has_escapes) || (has_escapes && !check_escapes(key))) return Step::failed;
  skip_space();
  if (position_ == text_.size() || text_[position_] != ':') return failed_with("':'");
  ++position_;
  return Step::more;
}

JsonReader::Step JsonReader::next_element(bool first) {
  skip_space();
  if (position_ < text_.size() && text_[position_] == ']') {
    // A comma before the bracket is seen below, where the element is missing.
    ++position_;
    return Step::end;
  }
  if (first) return Step::more;
  if (position_ == text_.size() || text_[position_] != ',') {
    fail_syntax("',' or ']'");
    return Step::failed;
  }
  ++position_;
  skip_space();
  if (position_ < text_.size() && text_[position_] == ']') {
    fail_syntax("an element");
    return Step::failed;
  }
  return Step::more;
}

// Leaves the position behind the closing quote; `raw` is what stands between the quotes.
bool JsonReader::string_token(std::string_view& raw, bool& has_escapes) {
  const std::size_t begin = ++position_;
  has_escapes = false;
  for (; position_ < text_.size(); ++position_) {
    const auto c = static_cast<unsigned char>(text_[position_]);
    if (c == '"') {
      raw = text_.substr(begin, position_ - begin);
      ++position_;
      return true;
    }
    if (c == '\\') {
      has_escapes = true;
      ++position_;  // whatever follows belongs to the escape, a quote included
    } else if (c < 0x20) {
      return fail_syntax("no control character in a string");
    }
  }
  position_ = text_.size();
  return fail_syntax("'\"' at the end of the string");
}

bool JsonReader::string(std::string& out, std::size_t max_bytes) {
  if (failed()) return false;
  skip_space();
  if (position_ == text_.size() || text_[position_] != '"') return fail_expected(found(), "a string");
  std::string_view raw;
  bool has_escapes = false;
  if (!string_token(raw, has_escapes)) return false;
  if (!has_escapes) {
    out.assign(raw);
  } else if (!decode(raw, out)) {
    return false;
  }
  if (out.size() > max_bytes) {
    return fail_expected(fmt::format("{} bytes", out.size()),
                         fmt::format("a string of at most {} bytes", max_bytes));
  }
  return true;
}

bool JsonReader::decode(std::string_view raw, std::string& out) {
  out.clear();
  out.reserve(raw.size());  // an escape is never shorter than what it stands for
  while (!raw.empty()) {
    const std::size_t plain = std::min(raw.find('\\'), raw.size());
    out.append(raw.substr(0, plain));
    raw.remove_prefix(plain);
    if (raw.empty()) return true;
    const char kind = raw.size() > 1 ? raw[1] : '\0';
    raw.remove_prefix(std::min<std::size_t>(2, raw.size()));
    switch (kind) {
      case '"':
      case '\\':
      case '/':
        out.push_back(kind);
        break;
      case 'b':
        out.push_back('\b');
        break;
      case 'f':
        out.push_back('\f');
        break;
      case 'n':
        out.push_back('\n');
        break;
      case 'r':
        out.push_back('\r');
        break;
      case 't':
        out.push_back('\t');
        break;
      case 'u': {
        const auto unit = four_hex(raw);
        if (!unit) return fail_expected("a \\u escape", "four hexadecimal digits after \\u");
        raw.remove_prefix(4);
        unsigned code_point = *unit;
        if (code_point >= 0xd800 && code_point < 0xe000) {
          const auto low = raw.starts_with("\\u") ? four_hex(raw.substr(2)) : std::nullopt;
          if (code_point >= 0xdc00 || !low || *low < 0xdc00 || *low >= 0xe000) {
            return fail_expected("half a surrogate pair", "a high and a low surrogate together");
          }
          raw.remove_prefix(6);
          code_point = 0x10000 + ((code_point - 0xd800) << 10) + (*low - 0xdc00);
        }
        append_utf8(out, code_point);
        break;
      }
      default:
        return fail_expected("an unknown escape", "one of \\\" \\\\ \\/ \\b \\f \\n \\r \\t \\u");
    }
  }
  return true;
}

// For strings whose content nobody wants.
bool JsonReader::check_escapes(std::string_view raw) {
  std::string ignored;
  return decode(raw, ignored);
}

bool JsonReader::literal(std::string_view word) {
  if (text_.substr(position_, word.size()) != word) return false;
  position_ += word.size();
  return true;
}

bool JsonReader::boolean(bool& out) {
  if (failed()) return false;
  skip_space();
  if (literal("true")) return out = true;
  if (literal("false")) {
    out = false;
    return true;
  }
  return fail_expected(found(), "true or false");
}

bool JsonReader::number_token(std::string_view& token) {
  if (failed()) return false;
  skip_space();
  const std::size_t begin = position_;
  std::size_t at = begin;
  const auto digits = [&] {
    const std::size_t from = at;
    while (at < text_.size() && is_digit(text_[at])) ++at;
    return at > from;
  };
  const auto accept = [&](char c) { return at < text_.size() && text_[at] == c && ++at; };
  accept('-');
  if (!accept('0') && !digits()) return fail_expected(found(), "a number");
  if (accept('.') && !digits()) return fail_expected(found(), "digits behind the decimal point");
  if (accept('e') || accept('E')) {
    if (!accept('+')) accept('-');
    if (!digits()) return fail_expected(found(), "digits in the exponent");
  }
  token = text_.substr(begin, at - begin);
  position_ = at;
  return true;
}

template <class T>
bool JsonReader::floating(T& out, std::optional<double> min, std::optional<double> max) {
  if (failed()) return false;
  skip_space();
  T value{};
  if (position_ < text_.size() && text_[position_] == '"') {
    std::string word;
    if (!string(word, 8)) return false;
    if (word == "inf")
      value = std::numeric_limits<T>::infinity();
    else if (word == "-inf")
      value = -std::numeric_limits<T>::infinity();
    else if (word == "nan")
      value = std::numeric_limits<T>::quiet_NaN();
    else
      return fail_expected("a string", "a number, \"inf\", \"-inf\" or \"nan\"");
  } else {
    std::string_view token;
    if (!number_token(token)) return false;
    const auto [end, code] = std::from_chars(token.data(), token.data() + token.size(), value);
    if (code != std::errc{} || end != token.data() + token.size()) {
      return fail_expected(token.substr(0, 40), "a number that a floating-point value can hold");
    }
  }
  // Written so that NaN lies outside every bound.
  if ((min && !(value >= *min)) || (max && !(value <= *max))) {
    return fail_expected(fmt::format("{}", value),
                         max ? fmt::format("a number from {} to {}", min.value_or(0), *max)
                             : fmt::format("at least {}", *min));
  }
  out = value;
  return true;
}

bool JsonReader::number(double& out, std::optional<double> min, std::optional<double> max) {
  return floating(out, min, max);
}
bool JsonReader::number(float& out, std::optional<double> min, std::optional<double> max) {
  return floating(out, min, max);
}

bool JsonReader::skip() {
  return !failed() && skip_nested(kMaxJsonDepth - static_cast<int>(path_.size()));
}

bool JsonReader::skip_nested(int depth) {
  skip_space();
  if (position_ == text_.size()) return fail_expected(found(), "a value");
  if (depth <= 0) return fail_expected("deeper nesting", fmt::format("at most {} levels", kMaxJsonDepth));
  switch (text_[position_]) {
    case '{':
      return object([&](std::string_view) { return skip_nested(depth - 1); });
    case '[':
      return array(text_.size(), [&] { return skip_nested(depth - 1); });
    case '"': {
      std::string_view raw;
      bool has_escapes = false;
      return string_token(raw, has_escapes) && (!has_escapes || check_escapes(raw));
    }
    case 't':
    case 'f': {
      bool ignored = false;
      return boolean(ignored);
    }
    case 'n':
      return literal("null") || fail_expected(found(), "null");
    default: {
      std::string_view token;
      return number_token(token);
    }
  }
}

bool JsonReader::end() {
  if (failed()) return false;
  skip_space();
  return position_ == text_.size() || fail_syntax("the end of the body");
}

// "request.messages[2].role"
std::string JsonReader::path() const {
  std::string out;
  for (const Segment& segment : path_) {
    if (segment.key.data() == nullptr) {
      out += fmt::format("[{}]", segment.index);
    } else {
      if (!out.empty()) out += '.';
      out += segment.key.substr(0, 64);
    }
  }
  return out;
}

// The kind of value at the position, for messages. Never its content: that may be a prompt.
std::string JsonReader::found() const {
  if (position_ >= text_.size()) return "the end of the body";
  const char c = text_[position_];
  if (c == '{') return "an object";
  if (c == '[') return "an array";
  if (c == '"') return "a string";
  if (c == 't' || c == 'f') return "a truth value";
  if (c == 'n') return "null";
  if (c == '-' || is_digit(c)) return "a number";
  return "no JSON value";
}

bool JsonReader::fail_with(std::string problem) {
  if (!error_) error_ = Error{ErrorKind::corrupt, "protocol_error", std::move(problem), path()};
  return false;
}

bool JsonReader::fail_expected(std::string_view found, std::string_view expected) {
  const std::string field = path();
  return fail_with(fmt::format("{} frame: {}{} is {}; expected {} (byte {})", frame_,
                               field.empty() ? "the body" : "field ", field, found, expected, position_));
}

bool JsonReader::fail_missing(std::string_view key) {
  path_.push_back({key, 0});
  fail_with(fmt::format("{} frame: field {} is missing", frame_, path()));
  path_.pop_back();
  return false;
}

bool JsonReader::fail_syntax(std::string_view expected) {
  return fail_with(
      fmt::format("{} frame: the body is not JSON at byte {}: expected {}", frame_, position_, expected));
}

}  // namespace gezel::protocol
