// turn/dialects.h
//
// The catalogue of tool-call dialects: spec 50 sections 5.1 and 5.2, one row per dialect. A row says what
// opens a call, what must follow for it to be one, what ends it and which grammar its body has; body_*.cc are
// the grammars.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "turn/calls.h"
#include "turn/family.h"
#include "turn/names.h"

namespace gezel::turn {

// What must follow an opener, or it is ordinary text.
enum class Guard : std::uint8_t {
  none,
  function_name,    // NAME `>`
  quoted_name,      // NAME `"` `>`
  invoke,           // ws, then an invoke tag
  calls,            // ws, then `[`, `{` or an invoke tag
  known_call,       // ws, then a call object of a known tool that is complete within kMaxGuarded bytes
  line_call,        // ws, then NAME `(`
  line_start_name,  // at the start of a line: NAME LF
  line_start_json,  // at the start of a line: LF and a fence of JSON
  function_role,    // of the opener `<|message_sep|>`: ws `function call<|role_sep|>`
  recipient,        // of the opener ` to=`: NAME `<|message|>` ws `<atem:`
};

// The grammar of what stands after the opener.
enum class Body : std::uint8_t {
  none,           // reached through another row's opener only
  tagged,         // anything that is written inside <tool_call>
  function_tags,  // <function=NAME> with parameter tags or JSON
  param_form,     // <function name="NAME"> <param name="K">
  invoke_xml,     // <invoke name="NAME"> <parameter name="K">
  json_calls,     // call objects, or arrays of them
  named_json,     // NAME, separators, JSON
  python_tag,     // Llama: NAME.call(K=J) or call objects
  python_calls,   // [NAME(K=J), ..] or lines NAME(K=J)
  kimi_k3,
  minimax_m3,
  derived,  // markers found by rendering (derived_dialect.h)
};

struct Dialect {
  Source source;
  std::span<const std::string_view> openers;
  Guard guard = Guard::none;
  Body body = Body::none;
  std::span<const std::string_view> closers;  // a body that fits no grammar ends at the nearest
  Family family = Family::other;              // rows of section 5.2: their family only
  bool opener_in_body = false;                // the grammar reads the opener itself
};

// What stands between opener and closer in the grammars of bodies, where vocabularies have it as one control
// token: the names that whoever turns tokens into text must not leave out.
std::span<const std::string_view> body_markers();

// Rows S1 to S25, then F1 to F11; F12 is made by derive_dialect.
std::span<const Dialect> dialects();
const Dialect& dialect(Source source);

constexpr Source strong(int row) {
  return {Source::Form::strong, row};
}
constexpr Source family_form(int row) {
  return {Source::Form::family, row};
}
constexpr Source weak(int row) {
  return {Source::Form::weak, row};
}

// The answer of a look at text that may not all have arrived.
enum class Look : std::uint8_t { no, yes, wait };

inline constexpr std::size_t kMaxGuarded = 4096;

// Does `text`, which begins with an opener of `size` bytes, satisfy the guard? `wait` only before the end of
// the text. `line_start`: the opener stands at the start of a line.
Look check_guard(Guard guard, std::string_view text, std::size_t size, bool ended, bool line_start,
                 const ToolNames& tools);

// `<` [a-z]+ `:` before `invoke name="` or `function_calls>`: the openers of S9 with a namespace. `size` is
// the opener's length where the answer is yes.
Look namespaced_opener(std::string_view text, bool ended, std::size_t& size);

}  // namespace gezel::turn
