// turn/splitter.h
//
// Where reasoning begins and ends in what a model writes, and where a tool call opens: spec 50 sections 3.3
// and 4.2. The splitter cuts the text in front of it into steps: so much text, a marker, a tool opener. The
// parser (parser.h) is built on it; the worker uses ReasoningTracker, which is the splitter alone.
//
// In the content, markers inside code are text: a code span (on its line) and a fence. A fence that begins
// with a tool opener is no code but a wrapping of the call, and is dropped with it.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "turn/dialects.h"
#include "turn/family.h"
#include "turn/input.h"
#include "turn/marker_set.h"
#include "turn/start_state.h"

namespace gezel::turn {

struct SplitterOptions {
  bool split_reasoning = true;  // false: reasoningFormat `none`, markers of reasoning are text
  Family family = Family::other;
  bool profile_row = false;  // row 2 of the table counts
  // Opener and closer of a template that is in no table.
  std::vector<std::pair<std::string, std::string>> private_markers;
  bool scrub_framing = true;  // chat-control words spelled out are removed; engines that know them by id
                              // leave them out themselves. What frames a family's messages is always removed.
  bool calls = false;         // openers of calls are recognised
  // A complete opener of a call ends a block of reasoning.
  bool tool_open_ends_reasoning = true;
  // What some guards ask for; must outlive the splitter. Null: no names.
  const ToolNames* tools = nullptr;
  // A dialect that belongs to one template (derived_dialect.h); must outlive the splitter.
  const Dialect* private_dialect = nullptr;
  // Markers that are one special token of the engine: they count only where the engine says that it was that
  // token, and the same characters spelled out are text.
  std::vector<std::string> special_markers;
};

class Splitter {
 public:
  Splitter(const SplitterOptions& options, bool inside);

  enum class Kind : std::uint8_t {
    wait,         // undecided: more text is needed; never at the end of the text, unless nothing is left
    text,         // of the channel we are in
    open,         // a block begins
    close,        // the block ends
    reopen,       // an opener inside a block, to be dropped
    stray_close,  // a closer without a block, to be dropped
    framing,      // to be dropped
    tool,         // a call opens; inside a block it ends the block
  };
  struct Step {
    Kind kind = Kind::wait;
    std::size_t size = 0;  // bytes it takes
    const Dialect* dialect = nullptr;
  };
  // The next step of the text from offset `offset` of the message, of which `text` has arrived. The caller
  // must consume exactly `size` bytes before it asks again. `in` knows special tokens, null: there are none.
  Step next(std::string_view text, bool ended, std::size_t offset, const Input* in = nullptr);

  bool inside() const { return inside_; }

 private:
  enum class What : std::uint8_t { open, close, framing, tool };
  struct Marker {
    What what = What::framing;
    const Dialect* dialect = nullptr;
    bool word = false, at_start = false, close_frames = false, special = false;
    bool until_blank_line =
        false;  // an opener: the block ends at a blank line; a closer: only of such a block
  };
  struct Code {
    enum class Kind : std::uint8_t { none, span, fence } kind = Kind::none;
    std::size_t ticks = 0;
    bool info_line = false;  // still on the line that opened the fence
  };

  struct Decision {
    Look look = Look::no;
    Marker marker;
    std::size_t size = 0;
  };

  void add(std::string_view text, Marker marker, bool any_case, bool content, bool reasoning);
  void see(std::string_view text);
  void end_tick_run();
  Decision wrapping_fence(std::string_view text, bool ended, std::size_t offset, const Input* in) const;
  Look applies(const Marker& marker, std::string_view text, std::size_t size, bool ended) const;
  Decision marker_at(std::string_view text, bool ended, std::size_t offset, const Input* in) const;
  Step take(const Decision& found);

  const ToolNames* tools_;
  bool calls_;
  bool calls_in_reasoning_;
  std::vector<std::string> special_markers_;
  std::vector<Marker> markers_;
  MarkerSet content_, reasoning_;
  // Bytes that are more than text: where a marker can begin, and in the content backticks.
  std::array<bool, 256> content_stops_{}, reasoning_stops_{};

  bool inside_;
  bool until_blank_line_ = false;  // of the open block
  bool at_start_ = true;           // nothing but white space so far
  bool line_start_ = true;         // nothing but blanks on this line so far
  std::size_t tick_run_ = 0;       // backticks that end the text seen so far
  bool tick_run_at_line_start_ = false;
  Code code_;
  std::size_t wrapping_ticks_ = 0;  // of a fence that was dropped and is still to be closed
};

// The splitter alone, for whoever only needs to know whether generation is inside a block: thinking budgets
// and constraints that begin when reasoning ends. Bytes in; a character may be split between pieces. Bodies
// of calls are not parsed: their openers count where they end a block, and are text elsewhere.
class ReasoningTracker {
 public:
  // `start` unknown counts as closed.
  ReasoningTracker(const SplitterOptions& options, StartState start);

  struct Boundary {
    std::size_t begin = 0, end = 0;  // bytes of the marker, counted from the beginning of the message
    bool inside = false;             // after it
    bool by_call = false;            // the block was ended by the opener of a call
  };
  // The markers that are complete with these bytes.
  std::vector<Boundary> feed(std::string_view bytes);
  bool inside() const { return splitter_.inside(); }
  // Bytes at the end that may be the beginning of a marker.
  std::size_t pending() const { return pending_.size(); }
  // Bytes fed so far.
  std::size_t offset() const { return offset_ + pending_.size(); }

 private:
  Splitter splitter_;
  std::string pending_;
  std::size_t offset_ = 0;
};

}  // namespace gezel::turn
