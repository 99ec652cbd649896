// turn/events.h
//
// What a parser tells while a message arrives. Reasoning and content only ever grow; a call is announced once
// and its arguments only grow. `Replace` is the one exception: the finished message differs from what was
// told (spec 50 section 1, invariant c), and a viewer that can should show it instead.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace gezel::turn {

struct ReasoningDelta {
  std::string text;
  bool operator==(const ReasoningDelta&) const = default;
};
struct ContentDelta {
  std::string text;
  bool operator==(const ContentDelta&) const = default;
};
// Calls are numbered from 0 in the order in which they are announced. One is open at a time.
struct CallBegin {
  int index = 0;
  std::string id;
  std::string name;
  bool operator==(const CallBegin&) const = default;
};
struct CallArgumentsDelta {
  int index = 0;
  std::string text;
  bool operator==(const CallArgumentsDelta&) const = default;
};
enum class CallOutcome : std::uint8_t {
  complete,
  truncated,  // the text ended inside; the arguments stay as sent
  malformed,  // what followed does not fit; the arguments stay as sent
};
struct CallEnd {
  int index = 0;
  CallOutcome outcome = CallOutcome::complete;
  bool operator==(const CallEnd&) const = default;
};
struct Replace {
  std::string reasoning;
  std::string content;
  bool operator==(const Replace&) const = default;
};

using Event = std::variant<ReasoningDelta, ContentDelta, CallBegin, CallArgumentsDelta, CallEnd, Replace>;
using Events = std::vector<Event>;

// Appends; text joins the event before if that is of the same kind.
void add_reasoning(Events& events, std::string_view text);
void add_content(Events& events, std::string_view text);
void add_arguments(Events& events, int index, std::string_view text);

}  // namespace gezel::turn
