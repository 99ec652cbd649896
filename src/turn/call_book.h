// turn/call_book.h
//
// The calls of one message while it is parsed. Grammars report what they read; the book resolves names, fits
// arguments to the schema, collapses duplicates, gives ids and tells the events: spec 50 sections 4.2.6, 4.5,
// 6.3, 6.4 and 7.
#pragma once
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "turn/calls.h"
#include "turn/coerce.h"
#include "turn/events.h"
#include "turn/names.h"
#include "turn/tool_schema.h"

namespace gezel::turn {

inline constexpr std::size_t kMaxCalls = 128;           // of one message; more are dropped
inline constexpr std::size_t kMaxReported = 64;         // unknown, truncated and unparsed calls, and repairs
inline constexpr std::size_t kMaxUnparsedBytes = 4096;  // of each unparsed text

// A call that was recognised and does not run: its name is unknown, or its body fits no grammar.
struct Unparsed {
  std::string name;  // empty where the body shows none
  std::string text;  // at most kMaxUnparsedBytes
  bool operator==(const Unparsed&) const = default;
};

// A call that was announced and never completed.
struct Abandoned {
  int index = 0;  // of its events
  std::string id;
  std::string name;
  std::string arguments;  // as sent
  CallOutcome outcome = CallOutcome::truncated;
};

// Section 5.4: what the calls of one message were recovered from.
struct ParseFlags {
  bool prose_repaired = false;          // W4
  bool xml_tag_repaired = false;        // W2
  bool claude_invoke_repaired = false;  // S9
  bool glm_repaired = false;            // S5
  bool hermes_repaired = false;         // S1, S6, S8
  bool shell_repaired = false;          // S7
  bool envelope_repaired = false;       // W1
  bool envelope_truncated = false;      // a JSON envelope that the text ended in
  bool bare_invoke_repaired = false;    // W3
  bool truncated_salvage = false;       // brackets missing at the end were added
  bool unknown_call = false;

  bool operator==(const ParseFlags&) const = default;
};

// Whoever reads the arguments of the open call.
class ArgumentsSoFar {
 public:
  // What has arrived of them; a string that is not complete as far as it is there.
  virtual json::object arguments_so_far() const = 0;

 protected:
  ~ArgumentsSoFar() = default;
};

class CallBook {
 public:
  struct Options {
    std::span<const ToolSchema> tools;  // callable; must outlive the book
    bool parallel = true;
    std::span<const Source> grammar;  // rows the active grammar produces; empty: no grammar
    CallIds* ids = nullptr;           // null: calls get only ids of the engine
  };
  CallBook(const Options& options, Events& events);

  const ToolNames& names() const { return names_; }

  // --- one call at a time

  // A call of `name` begins. It is announced if its name is known, no earlier call has it and `live` is set.
  void open(Source source, std::string_view name, std::string_view engine_id, bool live = true);
  bool opened() const { return open_; }
  const std::string& wanted_name() const { return wanted_; }          // of the open call, as written
  const ToolSchema* tool() const { return open_ ? tool_ : nullptr; }  // of the open call; null: unknown
  bool streaming() const { return open_ && announced_; }              // the open call was announced
  // Who reads the arguments from now on; null: nobody. Must outlive the reading.
  void read_by(const ArgumentsSoFar* reader) { reader_ = reader; }
  // The next fragment of the arguments; kept back if the call was not announced.
  void send(std::string_view fragment);
  const std::string& sent() const { return sent_; }

  struct Closing {
    json::object arguments;
    // How the arguments are written: the dialect's own strict text, or text that was built member by member
    // and already fits the schema. Nothing: to be written from `arguments`.
    std::optional<std::string> text;
    bool built = false;  // `text` was built; `arguments` need no coercion
    int repair = 0;      // level of the tolerant reader
    bool coerced = false;
    TextSpan span;
    std::string_view raw;  // the text of the call, for those that do not run
  };
  void close(Closing closing);
  // A native call whose arguments nothing can read: they are returned as they are.
  void close_unread(std::string_view arguments);
  // The open call does not complete.
  void abandon(CallOutcome outcome, std::string_view raw);

  // --- what is no call

  void malformed(std::string_view raw);
  void truncated(std::string_view name);
  void repaired(std::string what);  // for people: what was repaired, and why

  // --- what there is

  // Something was recognised as a call, whatever became of it.
  bool any() const { return any_; }

  std::vector<Call> calls;
  std::vector<int> indexes;  // of each call: the number of its events
  std::vector<std::string> unknown_names, truncated_names;
  std::vector<Call> cut;  // of known tools, with the arguments as far as they arrived
  int malformed_count = 0;
  std::vector<Unparsed> unparsed;
  std::vector<Abandoned> abandoned;
  ParseFlags flags;
  std::vector<std::string> repairs;

 private:
  void announce();
  void give_up(CallOutcome outcome, std::string_view raw);
  void report(std::string_view name, std::string_view raw);
  void note_repairs(const Closing& closing, const std::vector<Repair>& fitted);

  Options options_;
  Events& events_;
  ToolNames names_;
  int next_index_ = 0;
  bool any_ = false;
  std::unordered_set<std::string> seen_names_;  // of tools that were called
  std::unordered_set<std::string> seen_calls_;  // name and canonical arguments
  bool dropped_ = false;                        // a call beyond a limit

  // The open call.
  const ArgumentsSoFar* reader_ = nullptr;
  bool open_ = false;
  bool announced_ = false;
  Source source_;
  std::string wanted_, engine_id_, id_, sent_;
  const ToolSchema* tool_ = nullptr;
  int index_ = 0;
};

// `sent` completed so that it means `arguments`: it is `{`, whole members and perhaps the beginning of one
// more string. Nothing if the arguments do not begin that way.
std::optional<std::string> extend_arguments(std::string_view sent, const json::object& arguments);

}  // namespace gezel::turn
