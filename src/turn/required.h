// turn/required.h
//
// Calls that lack required arguments are not executed (spec 50 section 6.5). If a grammar was to guarantee
// those arguments, the decoder broke its promise: speculation is then switched off for the rest of the
// session (the sequential latch) and the model is told so once. Pure: the latch is an input and an output.
//
// For calls that the broker would execute, after coercion and collapse. Pass-through calls are not checked:
// their caller validates.
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "turn/calls.h"
#include "turn/tool_schema.h"

namespace gezel::turn {

// What the request asked of the engine.
struct GrammarRequest {
  // The engine took a tool grammar that guarantees required arguments (section 8.2, mode name-and-params or
  // the embedded engine's). False also when that grammar failed and decoding went on without it.
  bool guarantees_required = false;
  // The rows of the dialect catalogue that the grammar produces.
  std::vector<Source> spellings;
};

// The two answers to a call with missing arguments.
enum class MissingFeedback {
  decoder,  // A: the decoder left the fields out, decoding is sequential now, retry once
  model,    // B: retry with all declared fields
};

struct RejectedCall {
  std::size_t call = 0;              // index into the calls checked
  std::vector<std::string> missing;  // in the order of the schema
  MissingFeedback feedback = MissingFeedback::model;
  // A missing field is an object whose members were given as arguments of their own, because markup cannot
  // carry nesting: the text says that the values were right and asks for JSON (section 6.3).
  bool flattened = false;
  std::string text;  // the tool result for the model; starts with "ERROR:"
};

struct RequiredCheck {
  std::vector<RejectedCall> rejected;  // the other calls may run
  bool sequential = false;             // the latch afterwards; never goes from true to false
};

// `sequential` is the session's latch. A call whose name none of `tools` has is not judged here.
RequiredCheck check_required(bool sequential, std::span<const Call> calls, std::span<const ToolSchema> tools,
                             const GrammarRequest& grammar);

// The latch after a tool server's own validator missed a field that the advertised schema did not require.
// Its output goes to the model unchanged.
bool latch_after_validator(bool sequential, const Call& call, const GrammarRequest& grammar);

}  // namespace gezel::turn
