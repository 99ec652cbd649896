// turn/calls.h
//
// A tool call as the turn holds it, and where it came from. From spec 50 sections 6.4 (duplicates), 7.1
// (wire text), 7.2 (ids) and 7.3 (provenance).
#pragma once
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "base/ids.h"
#include "base/json.h"

namespace gezel::turn {

// What spelled the call: the engine's own structured deltas, or a row of the dialect catalogue (section 5).
struct Source {
  enum class Form { native, strong, family, weak };
  Form form = Form::native;
  int row = 0;  // 1 for S1, F1, W1; 0 for native

  bool operator==(const Source&) const = default;
};
std::string to_string(Source source);  // "native", "strong:S2", "family:F1", "weak:W4"

// Bytes [begin, end) of the text the call was read from; both 0 for native calls.
struct TextSpan {
  std::size_t begin = 0;
  std::size_t end = 0;

  bool operator==(const TextSpan&) const = default;
};

// Kept beside the call through coercion and collapse; never in the transcript.
struct Provenance {
  Source source;
  int repair = 0;            // level of the tolerant reader (tolerant_json.h)
  bool coerced = false;      // a value or key was changed to fit the schema
  bool truncated = false;    // the text ended inside the call
  bool constrained = false;  // a tool grammar was active and the call began inside its envelope
  TextSpan text_span;
};

struct Call {
  std::string id;              // unique in the conversation
  std::string engine_id;       // as the engine or the markup gave it; may be empty
  std::string name;            // a tool's name after resolution
  json::object arguments;      // after repair and coercion; {} if malformed
  std::string arguments_text;  // what goes over the wire
  // A native call whose arguments nothing could read: arguments_text is what the engine sent, for a caller
  // that has its own recovery. Never executed.
  bool malformed = false;
  Provenance provenance;
};

// JSON without blanks, keys in their order. Numbers keep being what they are: 2.5 is 2.5, 3.0 is 3.0.
std::string compact_json(const json::value& value);
std::string compact_json(const json::object& object);

// One text for all spellings of the same value: compact, keys sorted by bytes at every level, 3.0 as 3.
std::string canonical_json(const json::value& value);
std::string canonical_json(const json::object& object);

// Calls with the same name and the same canonical arguments collapse to the first. Returns how many went.
std::size_t collapse_duplicates(std::vector<Call>& calls);

// Prose-salvaged: a weak form, or a strong one in a spelling that the active grammar does not produce.
// `grammar_spellings` are the rows it does produce; empty when no grammar is active.
bool prose_salvaged(const Provenance& provenance, std::span<const Source> grammar_spellings);

// The ids of one conversation: `call_` and 24 random letters and digits. They say nothing about positions or
// turns. An id that the engine wrote itself never goes over the wire; it stays beside the call (Call::engine_id).
class CallIds {
 public:
  // `entropy` must outlive this. `used` are the ids already in the conversation.
  explicit CallIds(Entropy& entropy, std::span<const std::string> used = {});
  // The id of a new call.
  std::string take();

 private:
  Entropy* entropy_;
  std::unordered_set<std::string> used_;
};

}  // namespace gezel::turn
