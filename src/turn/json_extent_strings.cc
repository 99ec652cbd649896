// The strings of json_extent.cc: what is in them, and where they end.
#include "turn/json_chars.h"
#include "turn/json_extent.h"

namespace gezel::turn {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

}  // namespace

bool JsonExtent::in_string(unsigned char c) {
  const char text = static_cast<char>(c);
  if (c == (delimiter_ == Delimiter::double_quote ? '"' : '\'')) {
    flush_high_surrogate();
    begin_quote();
    return true;
  }
  if (c == '\\') {
    state_ = State::escape;
    return true;
  }
  if (c < 0x20) use(3);
  emit({&text, 1});
  return true;
}

bool JsonExtent::in_escape(unsigned char c) {
  if (c == 'u') {
    state_ = State::hex;
    unit_ = 0;
    hex_digits_ = 0;
    return true;
  }
  state_ = State::string;
  const char text = static_cast<char>(c);
  switch (c) {
    case 'b':
      emit("\b");
      return true;
    case 'f':
      emit("\f");
      return true;
    case 'n':
      emit("\n");
      return true;
    case 'r':
      emit("\r");
      return true;
    case 't':
      emit("\t");
      return true;
    case '\'':
      use(4);
      [[fallthrough]];
    case '"':
    case '\\':
    case '/':
      emit({&text, 1});
      return true;
    default:
      use(4);
      emit("\\");
      return false;
  }
}

bool JsonExtent::in_hex(unsigned char c) {
  const int lower = c | 0x20;
  const bool digit = c >= '0' && c <= '9';
  if (!digit && (lower < 'a' || lower > 'f')) {
    use(4);
    emit("\\u");
    emit({hex_text_, static_cast<std::size_t>(hex_digits_)});
    state_ = State::string;
    return false;
  }
  hex_text_[hex_digits_++] = static_cast<char>(c);
  unit_ = unit_ * 16 + static_cast<std::uint32_t>(digit ? c - '0' : lower - 'a' + 10);
  if (hex_digits_ == 4) {
    state_ = State::string;
    emit_unit(unit_);
  }
  return true;
}

// A UTF-16 unit from \uXXXX.
void JsonExtent::emit_unit(std::uint32_t unit) {
  const bool low = unit >= 0xDC00 && unit <= 0xDFFF;
  if (low && high_surrogate_ != 0) {
    unit = 0x10000 + ((high_surrogate_ - 0xD800) << 10) + (unit - 0xDC00);
    high_surrogate_ = 0;
  } else {
    flush_high_surrogate();
    if (unit >= 0xD800 && unit <= 0xDBFF) {
      high_surrogate_ = unit;
      return;
    }
    if (low) {
      use(4);
      unit = 0xFFFD;
    }
  }
  char text[4];
  std::size_t size = 0;
  const auto add = [&](std::uint32_t byte) { text[size++] = static_cast<char>(byte); };
  if (unit < 0x80) {
    add(unit);
  } else {
    if (unit < 0x800) {
      add(0xC0 | (unit >> 6));
    } else {
      if (unit < 0x10000) {
        add(0xE0 | (unit >> 12));
      } else {
        add(0xF0 | (unit >> 18));
        add(0x80 | ((unit >> 12) & 0x3F));
      }
      add(0x80 | ((unit >> 6) & 0x3F));
    }
    add(0x80 | (unit & 0x3F));
  }
  events_->string_part({text, size});
}

void JsonExtent::flush_high_surrogate() {
  if (high_surrogate_ == 0) return;
  high_surrogate_ = 0;
  use(4);
  events_->string_part(kReplacement);
}

void JsonExtent::emit(std::string_view text) {
  flush_high_surrogate();
  if (!text.empty()) events_->string_part(text);
}

// A quote was read. In a value that stands alone nothing has to follow a string, so it ends it.
void JsonExtent::begin_quote() {
  quote_end_ = offset_ + 1;
  if (depth_ == 0 && !options_.keyword_value) {
    end_string(quote_end_);
    return;
  }
  held_.clear();
  state_ = State::quote;
}

bool JsonExtent::after_quote(unsigned char c) {
  if (is_json_space(c)) {
    held_ += static_cast<char>(c);
    return true;
  }
  const bool follows = is_key_       ? c == ':'
                       : depth_ == 0 ? c == ',' || c == ')'
                                     : c == ',' || c == (in_object() ? '}' : ']');
  if (follows) {
    end_string(quote_end_);
    return false;
  }
  if (begin_mark(c, kMarkCloser)) return false;
  reject_quote();
  return false;
}

// The quote and what was held back behind it belong to the string.
void JsonExtent::reject_quote() {
  switch (delimiter_) {
    case Delimiter::double_quote:
    case Delimiter::single_quote:
      use(9);
      state_ = State::string;
      emit(delimiter_ == Delimiter::double_quote ? "\"" : "'");
      break;
    case Delimiter::star:
      state_ = State::star;
      emit(star_quote_ ? "*/" : "\"");
      break;
    default:
      state_ = State::raw;
      emit("*/");
  }
  const std::string again = std::move(held_) + std::move(mark_);
  held_.clear();
  mark_.clear();
  for (const char c : again) {
    while (!consume(static_cast<unsigned char>(c))) {
    }
  }
}

void JsonExtent::begin_string(Delimiter delimiter, bool is_key, std::size_t at) {
  delimiter_ = delimiter;
  is_key_ = is_key;
  switch (delimiter) {
    case Delimiter::double_quote:
      state_ = State::string;
      break;
    case Delimiter::single_quote:
      use(6);
      state_ = State::string;
      break;
    case Delimiter::gemma:
    case Delimiter::escape_tag:
      use(2);
      state_ = State::raw;
      break;
    case Delimiter::star:
      use(2);
      state_ = State::star;
      break;
  }
  events_->begin_string(is_key, at);
}

void JsonExtent::end_string(std::size_t end) {
  events_->end_string(end);
  if (is_key_) {
    state_ = State::colon;
  } else {
    end_value(end);
  }
}

}  // namespace gezel::turn
