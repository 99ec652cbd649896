// A pushdown automaton fed byte by byte; brackets are bits of one word. `consume` either takes the byte or
// changes the state and is asked again. Two things cannot be decided on one byte: whether a quote ends its
// string (state quote waits for the first byte that is not white space) and whether `<` begins a closer or
// one of Gemma's quotes (state mark). What they held back is read again as text of the string when it was not
// that, which happens at most once per byte: after a rejected quote only white space and the beginning of one
// closer are read again, and they hold no quotes.
#include "turn/json_extent.h"

#include <bit>

#include "turn/json_chars.h"
#include "turn/json_number.h"

namespace gezel::turn {
namespace {

static_assert(kMaxJsonDepth <= 64, "open brackets are bits of one word");

// What R5 makes of a word; empty for any other.
std::string_view literal_of(std::string_view word) {
  if (word == "True") return "true";
  if (word == "False") return "false";
  if (word == "None" || word == "undefined" || word == "NaN") return "null";
  return {};
}

}  // namespace

struct JsonExtent::MarkText {
  unsigned mark;
  std::string_view text;
};

// The text of all marks but closers.
constexpr JsonExtent::MarkText JsonExtent::kMarks[] = {{kMarkGemma, "<|\"|>"},
                                                       {kMarkEscapeTag, "<escape>"},
                                                       {kMarkStar, "*/"},
                                                       {kMarkByteOrder, "\xEF\xBB\xBF"},
                                                       {kMarkFence, "```"}};

JsonExtent::JsonExtent(const JsonOptions& options, JsonEvents* events) : options_(options), events_(events) {
  static JsonEvents nobody;  // has no state
  if (events_ == nullptr) events_ = &nobody;
}

int JsonExtent::level() const {
  return steps_ == 0 ? 0 : std::bit_width(steps_) - 1;
}

JsonStatus JsonExtent::feed(std::string_view piece) {
  std::size_t i = 0;
  while (i < piece.size() && status_ == JsonStatus::incomplete) {
    if (offset_ >= options_.max_bytes) {
      fail(offset_, "longer than the limit");
      break;
    }
    const std::size_t begin = offset_;
    const std::size_t run = take_run(piece.substr(i, options_.max_bytes - begin));
    offset_ = begin + run;
    if (run > 0) {
      i += run;
      continue;
    }
    const auto c = static_cast<unsigned char>(piece[i]);
    while (!consume(c)) {
      if (status_ != JsonStatus::incomplete) return status_;
    }
    ++i;
    ++offset_;
  }
  return status_;
}

JsonStatus JsonExtent::finish(TextEnd end) {
  if (status_ != JsonStatus::incomplete) return status_;
  // A beginning of a mark is none; the end may follow a quote.
  if (state_ == State::mark) {
    state_ = mark_from_;
    if (state_ == State::start) fail(mark_begin_, "unexpected character");
  }
  if (state_ == State::quote) {
    end_string(quote_end_);
  } else if (state_ == State::token && end == TextEnd::stopped &&
             (is_json_number(token_) || is_json_literal(token_) || !literal_of(token_).empty())) {
    end_token();
  }
  if (status_ != JsonStatus::incomplete) return status_;
  const bool only_brackets =
      state_ == State::after || state_ == State::first_key || state_ == State::first_element;
  if (only_brackets && end == TextEnd::stopped) {
    close_all(offset_);
  } else {
    status_ = JsonStatus::truncated;
    end_ = offset_;
  }
  return status_;
}

bool JsonExtent::inside_string() const {
  switch (state_ == State::mark ? mark_from_ : state_) {
    case State::string:
    case State::escape:
    case State::hex:
    case State::raw:
    case State::star:
    case State::quote:
    case State::bare_key:
      return true;
    case State::token:
      return !is_json_number(token_) && !is_json_literal(token_);
    default:
      return false;
  }
}

bool JsonExtent::consume(unsigned char c) {
  switch (state_) {
    case State::start:
      return at_start(c);
    case State::fence_info:
      if (is_ascii_alnum(c)) return true;
      state_ = State::value;
      return false;
    case State::value:
    case State::first_element:
    case State::next_element:
      return at_value(c);
    case State::first_key:
    case State::next_key:
      return at_key(c);
    case State::colon:
      if (is_json_space(c)) return true;
      if (c != ':') return fail(offset_, "a key without a colon");
      state_ = State::value;
      return true;
    case State::after:
      return after_value(c);
    case State::token:
      if (!is_json_word(c) && c != ':') {
        end_token();
        return false;
      }
      token_ += static_cast<char>(c);
      return true;
    case State::bare_key:
      if (!is_json_word(c)) {
        end_token();
        return false;
      }
      token_ += static_cast<char>(c);
      return true;
    case State::string:
      return in_string(c);
    case State::escape:
      return in_escape(c);
    case State::hex:
      return in_hex(c);
    case State::raw:
      if (begin_mark(c, (delimiter_ == Delimiter::gemma ? kMarkGemma : kMarkEscapeTag) |
                            (star_ends_strings_ ? kMarkStar : 0))) {
        return false;
      }
      emit({reinterpret_cast<const char*>(&c), 1});
      return true;
    case State::star:
      if (begin_mark(c, kMarkQuotes)) return false;
      if (c == '"') {
        star_quote_ = false;
        begin_quote();
      } else {
        emit({reinterpret_cast<const char*>(&c), 1});
      }
      return true;
    case State::quote:
      return after_quote(c);
    case State::mark:
      return in_mark(c);
  }
  return fail(offset_, "unexpected character");
}

bool JsonExtent::at_start(unsigned char c) {
  if (is_json_space(c)) return true;
  if (begin_mark(c, kMarkFence | (offset_ == 0 ? kMarkByteOrder : 0))) return false;
  state_ = State::value;
  return false;
}

bool JsonExtent::at_value(unsigned char c) {
  const bool element = state_ != State::value;
  if (is_json_space(c)) return true;
  if (c == '{' || c == '[') {
    open(c == '{');
    return true;
  }
  if (c == '"' || c == '\'') {
    begin_string(c == '"' ? Delimiter::double_quote : Delimiter::single_quote, false, offset_);
    return true;
  }
  if (element && c == ',') {
    use(8);
    state_ = State::next_element;
    return true;
  }
  if (element && c == ']') {
    if (state_ == State::next_element) use(8);
    return close(false);
  }
  // A word begins with none of the marks' characters but the star.
  if ((!is_json_word(c) || c == '*') && begin_mark(c, marks_here())) return false;
  if (!is_json_word(c)) return fail(offset_, "unexpected character");
  token_.assign(1, static_cast<char>(c));
  token_begin_ = offset_;
  state_ = State::token;
  return true;
}

bool JsonExtent::at_key(unsigned char c) {
  if (is_json_space(c)) return true;
  if (c == '"' || c == '\'') {
    begin_string(c == '"' ? Delimiter::double_quote : Delimiter::single_quote, true, offset_);
    return true;
  }
  if (c == ',') {
    use(8);
    state_ = State::next_key;
    return true;
  }
  if (c == '}') {
    if (state_ == State::next_key) use(8);
    return close(true);
  }
  // A word begins with none of the marks' characters but the star.
  if ((!is_json_word(c) || c == '*') && begin_mark(c, marks_here())) return false;
  if (!is_json_word(c)) return fail(offset_, "unexpected character");
  token_.assign(1, static_cast<char>(c));
  token_begin_ = offset_;
  state_ = State::bare_key;
  return true;
}

bool JsonExtent::after_value(unsigned char c) {
  if (is_json_space(c)) return true;
  if (c == ',') {
    state_ = in_object() ? State::next_key : State::next_element;
    return true;
  }
  if (c == '}' || c == ']') return close(c == '}');
  if (begin_mark(c, kMarkCloser)) return false;
  return fail(offset_, "no comma or bracket after a value");
}

void JsonExtent::end_token() {
  const std::size_t end = offset_;
  const bool is_key = state_ == State::bare_key;
  if (!is_key && (is_json_number(token_) || is_json_literal(token_))) {
    events_->scalar(token_, token_begin_, end);
    return end_value(end);
  }
  if (const std::string_view literal = literal_of(token_); !is_key && !literal.empty()) {
    use(5);
    events_->scalar(literal, token_begin_, end);
    return end_value(end);
  }
  if (!is_key && depth_ == 0 && !options_.keyword_value) {
    fail(token_begin_, "a word in place of a value");
    return;
  }
  use(7);
  events_->begin_string(is_key, token_begin_);
  events_->string_part(token_);
  is_key_ = is_key;
  end_string(end);
}

void JsonExtent::open(bool object) {
  if (depth_ == kMaxJsonDepth) {
    fail(offset_, "nested deeper than 64");
    return;
  }
  const std::uint64_t bit = std::uint64_t{1} << depth_++;
  objects_ = object ? objects_ | bit : objects_ & ~bit;
  if (object) {
    events_->open_object(offset_);
    state_ = State::first_key;
  } else {
    events_->open_array(offset_);
    state_ = State::first_element;
  }
}

bool JsonExtent::close(bool object) {
  if (in_object() != object) return fail(offset_, "a bracket of the other kind");
  --depth_;
  if (object) {
    events_->close_object(offset_ + 1);
  } else {
    events_->close_array(offset_ + 1);
  }
  end_value(offset_ + 1);
  return true;
}

// R11: the brackets that are missing at `at`.
void JsonExtent::close_all(std::size_t at) {
  use(11);
  while (depth_ > 0) {
    const bool object = in_object();
    --depth_;
    if (object) {
      events_->close_object(at);
    } else {
      events_->close_array(at);
    }
  }
  end_value(at);
}

void JsonExtent::end_value(std::size_t end) {
  if (depth_ > 0) {
    state_ = State::after;
    return;
  }
  status_ = JsonStatus::complete;
  end_ = end;
}

bool JsonExtent::fail(std::size_t at, std::string_view problem) {
  status_ = JsonStatus::malformed;
  end_ = at;
  problem_ = problem;
  return false;
}

// The marks that may begin where a value or key may stand. A closer only where nothing but brackets is
// missing: not after a colon.
unsigned JsonExtent::marks_here() const {
  return (options_.gemma_quotes ? kMarkQuotes : 0) | (state_ == State::value ? 0 : kMarkCloser);
}

// Whether `c` begins one of `marks`; the state is then mark and `c` is to be read again.
bool JsonExtent::begin_mark(unsigned char c, unsigned marks) {
  unsigned possible = 0;
  for (const MarkText& mark : kMarks) {
    if ((marks & mark.mark) != 0 && static_cast<unsigned char>(mark.text.front()) == c) possible |= mark.mark;
  }
  if ((marks & kMarkCloser) != 0) {
    for (const std::string_view closer : options_.closers) {
      if (!closer.empty() && static_cast<unsigned char>(closer.front()) == c) possible |= kMarkCloser;
    }
  }
  if (possible == 0) return false;
  marks_ = possible;
  mark_.clear();
  mark_begin_ = offset_;
  mark_from_ = state_;
  state_ = State::mark;
  return true;
}

bool JsonExtent::in_mark(unsigned char c) {
  mark_ += static_cast<char>(c);
  bool possible = false;
  for (const MarkText& mark : kMarks) {
    if ((marks_ & mark.mark) == 0 || !mark.text.starts_with(mark_)) continue;
    if (mark.text.size() == mark_.size()) {
      mark_.clear();
      found_mark(mark.mark);
      return true;
    }
    possible = true;
  }
  if ((marks_ & kMarkCloser) != 0) {
    for (const std::string_view closer : options_.closers) {
      if (!closer.starts_with(mark_)) continue;
      if (closer.size() == mark_.size()) {
        mark_.clear();
        found_closer();
        return true;
      }
      possible = true;
    }
  }
  if (possible) return true;

  // None of them. `c` is not part of what was held back, and is read again.
  mark_.pop_back();
  state_ = mark_from_;
  if (state_ == State::quote) {
    reject_quote();
  } else if (state_ == State::raw || state_ == State::star) {
    emit(mark_);
  } else {
    fail(mark_begin_, "unexpected character");
  }
  return false;
}

void JsonExtent::found_mark(unsigned mark) {
  switch (mark_from_) {
    case State::start:
      use(1);
      fenced_ = mark == kMarkFence;
      state_ = fenced_ ? State::fence_info : State::start;
      return;
    case State::raw:
    case State::star:
      if (mark == kMarkStar) {
        star_quote_ = true;
        begin_quote();
      } else {
        end_string(offset_ + 1);
      }
      return;
    default: {
      const bool is_key = mark_from_ == State::first_key || mark_from_ == State::next_key;
      begin_string(mark == kMarkGemma       ? Delimiter::gemma
                   : mark == kMarkEscapeTag ? Delimiter::escape_tag
                                            : Delimiter::star,
                   is_key, mark_begin_);
    }
  }
}

void JsonExtent::found_closer() {
  if (mark_from_ == State::quote) {
    end_string(quote_end_);
    if (status_ != JsonStatus::incomplete) return;
    if (state_ == State::colon) {
      fail(mark_begin_, "a key without a colon");
      return;
    }
  } else if (mark_from_ == State::next_key || mark_from_ == State::next_element) {
    use(8);
  }
  close_all(mark_begin_);
}

}  // namespace gezel::turn
