// turn/tolerant_json.h
//
// Reads JSON as models write it. Spec 50 section 6.1 orders what is forgiven as a ladder of steps R0..R11; the
// number of the highest step a value needed is its level, and 0 is strict JSON:
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
//   R9  quotes inside a string: a quote ends it only if what follows could follow a string
//   R10 the whole value is a string that holds an object
//   R11 brackets missing at the end of the text or at a dialect's closer
//
// There is one lexer. A step only widens what it accepts at a place where strict JSON accepts nothing, so no
// step changes text inside a string that a delimiter holds, and the result of the lexer is the result of the
// first step that accepts the whole value.
//
// Work is linear in the text. Bounds: JsonOptions::max_bytes per value, nesting of kMaxJsonDepth.
#pragma once
#include <array>
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
  // not followed by one of them belongs to the string.
  bool keyword_value = false;
  // Steps that are this dialect's own grammar (Gemma's quotes and bare keys, Python's literals) and do not
  // count for the level.
  Steps native = 0;
  // What ends a call in this dialect, such as "</tool_call>". Outside strings it ends the value, and missing
  // brackets are forgiven (R11). The strings must outlive the reader.
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

// What an incremental reader tells while it reads. Everything told is final: no later byte changes it.
// Offsets count bytes from the first byte fed.
class JsonEvents {
 public:
  virtual ~JsonEvents() = default;
  virtual void open_object(std::size_t) {}   // offset of the bracket
  virtual void open_array(std::size_t) {}
  virtual void close_object(std::size_t) {}  // offset after the bracket, or where a missing one was added
  virtual void close_array(std::size_t) {}
  virtual void begin_string(bool /*is_key*/, std::size_t) {}  // offset of the opening delimiter
  // The next part of the string, decoded. Parts are whole characters if the text fed is well-formed UTF-8 and
  // fed in whole characters.
  virtual void string_part(std::string_view) {}
  virtual void end_string(std::size_t) {}  // offset after the closing delimiter
  // A number, or true, false or null (also where R5 spelled it differently).
  virtual void scalar(std::string_view /*token*/, std::size_t /*begin*/, std::size_t /*end*/) {}
};

// Says where a value that arrives in pieces ends, without keeping or rescanning it. The answer depends on the
// bytes only, never on where they were split.
class JsonExtent {
 public:
  explicit JsonExtent(const JsonOptions& options = {}, JsonEvents* events = nullptr);

  // After the value is complete or malformed, bytes are ignored.
  JsonStatus feed(std::string_view piece);
  // The end of the text. Never `incomplete`.
  JsonStatus finish(TextEnd end);

  JsonStatus status() const { return status_; }
  // complete: offset after the value (after its last bracket, before a closer). Otherwise: how far it was read.
  std::size_t end() const { return end_; }
  int level() const;              // highest step needed so far
  Steps steps() const { return steps_; }  // all steps needed so far that are not native
  int depth() const { return depth_; }    // brackets open now
  bool inside_string() const;     // the cut is inside a string or a bare word
  bool fenced() const { return fenced_; }  // a code fence was opened in front of the value
  // malformed: why, as a sentence part: "unexpected character", "nested deeper than 64".
  std::string_view problem() const { return problem_; }

 private:
  JsonStatus status_ = JsonStatus::incomplete;
  std::size_t end_ = 0;
  Steps steps_ = 0;
  int depth_ = 0;
  bool fenced_ = false;
  std::string_view problem_;
};

struct JsonRead {
  JsonStatus status = JsonStatus::malformed;  // never `incomplete`
  // complete: the value. truncated: as much as arrived, a cut string included. malformed: null.
  json::value value;
  int level = 0;
  std::size_t consumed = 0;    // as JsonExtent::end
  bool inside_string = false;  // truncated: the cut is inside a string
  bool fenced = false;
  std::string_view problem;  // malformed: why

  bool strict() const { return status == JsonStatus::complete && level == 0; }
};

// Reads the value at the start of `text`; text behind it is left alone. The same as JsonExtent, plus one case
// that is only decidable on the finished text: a string whose closing quote was written as */.
JsonRead read_json(std::string_view text, const JsonOptions& options = {}, TextEnd end = TextEnd::stopped);

// Reads arguments that are a text of their own: an object, or a string that holds one (R10, at most twice).
// Empty or blank text is {}. Text after the value counts as R1. Any other value is malformed.
JsonRead read_arguments(std::string_view text, const JsonOptions& options = {},
                        TextEnd end = TextEnd::stopped);

}  // namespace gezel::turn
