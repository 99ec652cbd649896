// turn/parser.h
//
// What a model wrote, in any pieces, in; reasoning, content and tool calls out: spec 50 sections 1.6, 1.7, 3,
// 4 and 7. A pure state machine: what comes out depends on the bytes and the options only, never on how the
// text was cut, and a stream says the same as the finished message. Where the finished message must differ
// from what was streamed, a Replace event says so.
//
//   Parser parser({.start = StartState::open, .tools = tools, .ids = &ids});
//   for (piece : pieces) publish(parser.feed(piece));
//   auto [events, message] = parser.finish(FinishReason::stop);
//
// Stop strings are cut off before (stop_strings.h). Work is linear in the text; what is withheld is bounded.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "turn/call_book.h"
#include "turn/derived_dialect.h"
#include "turn/events.h"
#include "turn/family.h"
#include "turn/start_state.h"
#include "turn/tool_schema.h"
#include "turn/usage.h"

namespace gezel::turn {

// Which forms of calls are recognised (section 4.1).
enum class SalvageLevel : std::uint8_t {
  off,     // none: markup is content, byte for byte
  strong,  // unmistakable markers
  all,     // and what only looks like a call, on the finished text
};

struct ParserOptions {
  // --- the model
  Family family = Family::other;
  bool split_reasoning = true;                                       // reasoningFormat is not `none`
  bool profile_markers = false;                                      // row 2 of the table of markers, too
  std::vector<std::pair<std::string, std::string>> private_markers;  // opener and closer of this template
  const DerivedDialect* derived = nullptr;                           // F12; must outlive the parser
  bool tool_open_ends_reasoning = true;
  bool scrub_framing = true;                 // false: the engine leaves chat-control tokens out by id
  std::vector<std::string> special_markers;  // count only in feed_special
  bool capture_pre_tool_prose = false;       // behaviour of that name (3.3.8)

  // --- the request
  StartState start = StartState::closed;
  std::span<const ToolSchema> tools;  // callable; must outlive the parser
  bool tool_choice_none = false;      // calls are text
  SalvageLevel salvage = SalvageLevel::all;
  bool parallel_calls = true;
  // Rows of the catalogue that the active tool grammar produces; empty: no grammar is active.
  std::vector<Source> grammar;
  // Of the conversation; must outlive the parser. Null: calls have no ids but those of the engine.
  CallIds* ids = nullptr;
};

// A finished message.
struct Message {
  std::string reasoning;
  std::string content;
  std::vector<Call> calls;
  std::vector<int> indexes;  // of each call: its number in the events
  // Calls that do not run.
  std::vector<std::string> unknown;    // names that no tool has
  std::vector<std::string> truncated;  // the text ended inside; empty names where none was complete
  // Of those, the calls of known tools, with the arguments as far as they arrived: for the one exception that
  // writes them (11.6.7). Never to be executed as they are.
  std::vector<Call> cut;
  int malformed = 0;
  std::vector<Unparsed> unparsed;    // unknown and malformed, for a caller with a recovery of its own
  std::vector<Abandoned> abandoned;  // announced in the stream, and truncated or malformed
  ParseFlags flags;
  bool rescued = false;              // calls were taken from reasoning (3.3.6)
  std::vector<std::string> repairs;  // for people: what was repaired and why
};

class Parser {
 public:
  explicit Parser(ParserOptions options);
  Parser(Parser&&) noexcept;
  Parser& operator=(Parser&&) noexcept;
  ~Parser();

  // Text of the model. Bytes that are no UTF-8 become U+FFFD; a character may be split between pieces.
  Events feed(std::string_view text);
  // One special token of the engine, as text. It is matched like text, and it is the only thing that matches
  // a marker named in special_markers.
  Events feed_special(std::string_view token);
  // Reasoning that the engine delivers on a channel of its own (3.3.9).
  Events feed_reasoning(std::string_view text);
  // A call that the engine delivers in structured form, complete.
  Events feed_native_call(std::string_view id, std::string_view name, std::string_view arguments);

  struct Finished {
    Events events;
    Message message;
  };
  // The end of the text, and why it ended: `length` cuts what is open. Nothing may be fed afterwards.
  Finished finish(FinishReason reason);

  // Inside a block of reasoning; inside a call.
  bool reasoning() const;
  bool in_call() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// A whole message at once.
Message parse_message(std::string_view text, ParserOptions options, FinishReason reason = FinishReason::stop);

}  // namespace gezel::turn
