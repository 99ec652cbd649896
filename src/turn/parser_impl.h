// turn/parser_impl.h
//
// The state of a parser: the text that is still to be read, the two channels, the calls.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "base/utf8.h"
#include "turn/body.h"
#include "turn/call_book.h"
#include "turn/input.h"
#include "turn/leading_hold.h"
#include "turn/parser.h"
#include "turn/regions.h"
#include "turn/splitter.h"
#include "turn/task.h"

namespace gezel::turn {

struct Parser::Impl {
  explicit Impl(ParserOptions given);

  Events push(std::string_view text, bool special);
  Finished finish(FinishReason reason);

  // --- reading (parser.cc; harmony.cc for that family)
  Task<> read();
  Task<> read_split();
  Task<> read_first_recipient();
  Task<> read_call(const Dialect& dialect, std::size_t opener_size);
  Task<> read_harmony();
  Task<> read_harmony_text(bool reasoning);
  Task<> read_harmony_call(std::string name, bool known);

  // --- the channels
  void begin_block(std::string_view opener);
  void end_block();
  void write_reasoning(std::string_view text);
  void write_content(std::string_view text);
  void remove_span();
  void stray_close();
  void stream_content();

  // --- the finished message (parser_finish.cc)
  void return_open_block(Message& message) const;
  void move_unknown_start(Message& message) const;
  bool rescue(Message& message);
  void scan_weak(Message& message, TextEnd end);
  void capture_prose(Message& message) const;
  void take_calls(Message& message);
  void stream_rest(const Message& message);

  bool calls_on() const {
    return !options.tools.empty() && !options.tool_choice_none && options.salvage != SalvageLevel::off;
  }

  ParserOptions options;
  Events events;
  Utf8Assembler utf8;
  Input in;
  bool cut = false;  // by the output limit; set at the end
  CallBook book;
  Splitter splitter;
  bool in_call = false;
  bool harmony_reasoning = false;  // inside a message of reasoning

  ContentWriter content_writer;
  ReasoningWriter reasoning_writer;
  std::string content;    // all of it; `content_sent` bytes were told
  std::string reasoning;  // all of it was told
  std::size_t content_sent = 0;
  LeadingHold hold;

  // The open block, if a marker of the text opened it.
  struct Block {
    bool in_middle = false;  // content stands before it
    std::string text;        // opener and all; only if it is in the middle
    ContentWriter content;   // as it was in front of the opener
    std::size_t reasoning_size = 0;
  };
  std::optional<Block> block;
  bool any_block = false;
  // Start unknown: where the content was when a closer came that no block had.
  std::optional<std::size_t> unknown_end;

  Task<> reader;
};

}  // namespace gezel::turn
