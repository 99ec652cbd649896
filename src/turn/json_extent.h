// turn/json_extent.h
//
// JSON as models write it, read piece by piece: where a value ends, what had to be forgiven, and its parts as
// events. Spec 50 section 6.1 orders what is forgiven as a ladder of steps R0..R11; the number of the highest
// step a value needed is its level, and 0 is strict JSON:
//
//   R0  strict JSON; of a repeated key the last value counts
//   R1  a byte order mark or a code fence in front; text after the value, where nothing may follow
//   R2  Gemma's quote token and <escape> as delimiters of raw strings; a stray */ in place of a quote
//   R3  raw line breaks, tabs and other control characters inside strings
//   R4  \' and unknown escapes (\d is backslash and d); an unpaired surrogate becomes U+FFFD
//   R5  True False None undefined NaN
//   R6  single-quoted strings
//   R7  bare keys and bare words as values
//   R8  trailing and doubled commas
//   R9  quotes inside a string: a quote ends it only if what follows may follow a string at that place
//   R10 the whole value is a string that holds an object (read_arguments in tolerant_json.h)
//   R11 brackets missing at the end of the text or at a dialect's closer
//
// There is one lexer. A step only widens what it accepts where the steps before accept nothing, so no step
// changes text inside a string that a delimiter holds, and what the lexer accepts in one pass is what the
// first step that accepts the whole value would have given.
//
// Work is linear in the text and memory constant but for one token. Bounds: JsonOptions::max_bytes per value,
// nesting of kMaxJsonDepth.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/json.h"

namespace gezel::turn {

inline constexpr std::size_t kMaxArgumentBytes = 1 << 20;

// A set of steps of the ladder.
using Steps = std::uint16_t;
constexpr Steps step(int number) {
  return static_cast<Steps>(1u << number);
}

struct JsonOptions {
  // Gemma's quote token and <escape> delimit strings. Off, they are ordinary text.
  bool gemma_quotes = false;
  // The value stands in a list `NAME(K=J, ..)`: it is followed by `,` or `)`, and a quote of a string that is
  // not followed by one of them belongs to the string. A bare word may stand here (R7).
  bool keyword_value = false;
  // Steps that are this dialect's own grammar (Gemma's quotes and bare keys, Python's literals) and do not
  // count for the level.
  Steps native = 0;
  // What ends a call in this dialect, such as "</tool_call>". Outside strings it ends the value, and missing
  // brackets are forgiven (R11). Closers hold no quotes, do not begin with a letter or digit, and must
  // outlive the reader.
  std::span<const std::string_view> closers = {};
  std::size_t max_bytes = kMaxArgumentBytes;
};

enum class JsonStatus {
  incomplete,  // only before the end of the text: the value has not ended yet
  complete,
  truncated,  // the text ended too early: inside a string, where more than brackets are lacking, or by length
  malformed,  // no step accepts it, or a bound was exceeded
};

// How the text ended. Nothing that is cut by the output limit is closed by R11.
enum class TextEnd { stopped, cut };

// What the reader tells while it reads. Everything told is final: no later byte changes it. Offsets count
// bytes from the first byte fed. A key is told as a string.
class JsonEvents {
 public:
  virtual ~JsonEvents() = default;
  virtual void open_object(std::size_t /*at*/) {}  // offset of the bracket
  virtual void open_array(std::size_t /*at*/) {}
  virtual void close_object(std::size_t /*end*/) {}  // offset after the bracket, or where one was missing
  virtual void close_array(std::size_t /*end*/) {}
  virtual void begin_string(bool /*is_key*/, std::size_t /*at*/) {}  // offset of the opening delimiter
  // The next part of the string, decoded. Parts hold whole characters if the text fed is well-formed UTF-8 in
  // whole characters.
  virtual void string_part(std::string_view /*text*/) {}
  virtual void end_string(std::size_t /*end*/) {}  // offset after the closing delimiter
  // A number in strict JSON, or true, false or null (also where R5 spelled it differently).
  virtual void scalar(std::string_view /*token*/, std::size_t /*at*/, std::size_t /*end*/) {}
};

// Reads one value. What it finds depends on the bytes only, never on where they were split.
class JsonExtent {
 public:
  // `events`, if any, must outlive this.
  explicit JsonExtent(const JsonOptions& options = {}, JsonEvents* events = nullptr);

  // Once the value is complete or malformed, bytes are ignored.
  JsonStatus feed(std::string_view piece);
  // The end of the text. Never `incomplete`.
  JsonStatus finish(TextEnd end);

  JsonStatus status() const { return status_; }
  // complete: offset after the value (after its last bracket; where brackets are missing, before the closer).
  // malformed: of what was not accepted. Otherwise: how far the text was read.
  std::size_t end() const { return status_ == JsonStatus::incomplete ? offset_ : end_; }
  Steps steps() const { return steps_; }   // needed so far; without those that are native
  int level() const;                       // the highest of them
  int depth() const { return depth_; }     // brackets open
  bool inside_string() const;              // also inside a bare word
  bool fenced() const { return fenced_; }  // a code fence was opened in front of the value
  // malformed: why, for example "unexpected character".
  std::string_view problem() const { return problem_; }

  // Inside a string of Gemma's, */ ends it too if what follows may follow a string. Only for a second try on
  // finished text (read_json), because it can be wrong about code comments.
  void let_star_end_strings() { star_ends_strings_ = true; }

 private:
  enum class State : std::uint8_t {
    start,          // in front of everything
    fence_info,     // the word after a fence
    value,          // a value must come
    first_element,  // ... or ]
    next_element,   // ... after a comma
    first_key,      // a key or }
    next_key,       // ... after a comma
    colon,          // after a key
    after,          // after a value in a container
    token,          // in a number, a literal or a bare word
    bare_key,
    string,  // between " or '
    escape,  // after a backslash
    hex,     // after \u
    raw,     // between Gemma's quotes
    star,    // in a string that */ opened
    quote,   // after a quote that may or may not end the string
    mark,    // in what may become a closer or one of Gemma's quotes
  };
  enum class Delimiter : std::uint8_t { double_quote, single_quote, gemma, escape_tag, star };

  // What may be recognised in state mark, as bits.
  static constexpr unsigned kMarkGemma = 1, kMarkEscapeTag = 2, kMarkStar = 4, kMarkByteOrder = 8,
                            kMarkFence = 16, kMarkCloser = 32;
  static constexpr unsigned kMarkQuotes = kMarkGemma | kMarkEscapeTag | kMarkStar;
  struct MarkText;
  static const MarkText kMarks[5];

  bool consume(unsigned char c);
  bool at_start(unsigned char c);
  bool at_value(unsigned char c);
  bool at_key(unsigned char c);
  bool after_value(unsigned char c);
  bool in_string(unsigned char c);
  bool in_escape(unsigned char c);
  bool in_hex(unsigned char c);
  bool after_quote(unsigned char c);
  bool in_mark(unsigned char c);

  std::size_t take_strict(std::string_view text);
  std::size_t take_run(std::string_view text);
  bool in_object() const { return depth_ > 0 && ((objects_ >> (depth_ - 1)) & 1) != 0; }
  void use(int number) { steps_ |= static_cast<Steps>(step(number) & ~options_.native); }
  void emit(std::string_view text);
  void emit_unit(std::uint32_t unit);
  void flush_high_surrogate();
  void open(bool object);
  bool close(bool object);
  void close_all(std::size_t at);
  void begin_string(Delimiter delimiter, bool is_key, std::size_t at);
  void end_string(std::size_t end);
  void begin_quote();
  void reject_quote();
  void end_token();
  void end_value(std::size_t end);
  bool fail(std::size_t at, std::string_view problem);
  unsigned marks_here() const;
  bool begin_mark(unsigned char c, unsigned marks);
  void found_mark(unsigned mark);
  void found_closer();

  JsonOptions options_;
  JsonEvents* events_;
  JsonStatus status_ = JsonStatus::incomplete;
  State state_ = State::start;
  std::size_t offset_ = 0;  // of the byte that is looked at
  std::size_t end_ = 0;
  Steps steps_ = 0;
  bool fenced_ = false;
  bool star_ends_strings_ = false;
  std::string_view problem_;
  int depth_ = 0;
  std::uint64_t objects_ = 0;  // bit per open bracket, outermost first: 1 is an object

  // The string being read.
  Delimiter delimiter_ = Delimiter::double_quote;
  bool is_key_ = false;
  std::size_t quote_end_ = 0;  // state quote: offset after the quote
  bool star_quote_ = false;    // state quote: it was */
  std::string held_;           // state quote: white space after it
  std::uint32_t unit_ = 0;     // state hex
  int hex_digits_ = 0;
  char hex_text_[4] = {};
  std::uint32_t high_surrogate_ = 0;  // waits for its other half

  std::string token_;  // number, literal, bare word or bare key
  std::size_t token_begin_ = 0;

  std::string mark_;  // what was read of the mark
  std::size_t mark_begin_ = 0;
  State mark_from_ = State::start;
  unsigned marks_ = 0;  // which marks it may become
};

}  // namespace gezel::turn
