// turn/body.h
//
// Grammars of what stands after an opener: one coroutine per kind of body (dialects.h), each in its own
// body_*.cc. A grammar consumes the span, its closer included, and reports calls to the book. It never fails
// on what follows a complete call: text there belongs to the content.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "turn/call_book.h"
#include "turn/derived_dialect.h"
#include "turn/dialects.h"
#include "turn/input.h"
#include "turn/json_extent.h"
#include "turn/live_arguments.h"
#include "turn/task.h"

namespace gezel::turn {

enum class BodyEnd : std::uint8_t {
  complete,   // the span was read, with whatever calls there were
  malformed,  // the rest fits no grammar: nothing of it is a call
  truncated,  // the text ended inside
};

struct BodyContext {
  Input& in;
  CallBook& book;
  const Dialect& dialect;
  const DerivedDialect* derived = nullptr;  // of Body::derived
  // The output limit ended the text. Known once it has ended.
  const bool& cut;
  std::size_t begin = 0;  // where the call that is read next begins, in bytes of the message
  std::string captured;   // its text so far, bounded
  // For a span that ends malformed or truncated: the book has counted it already; its name, where one is
  // known although no call was opened.
  bool counted = false;
  std::string cut_name;

  TextEnd text_end() const { return cut ? TextEnd::cut : TextEnd::stopped; }
  TextSpan span() const { return {begin, in.offset()}; }
  // The next call begins here.
  void next_call() {
    begin = in.offset();
    captured.clear();
    counted = false;
    cut_name.clear();
  }
  // Gives up the open call, if there is one.
  BodyEnd give_up(BodyEnd end);
};

// The grammar of `context.dialect`. Only bodies other than Body::none.
Task<BodyEnd> read_body(BodyContext& context);

// --- the grammars; each begins after the opener unless the row says opener_in_body

Task<BodyEnd> tagged_body(BodyContext& c);
Task<BodyEnd> function_tags_body(BodyContext& c);
Task<BodyEnd> param_form_body(BodyContext& c);
Task<BodyEnd> invoke_xml_body(BodyContext& c);
Task<BodyEnd> json_calls_body(BodyContext& c);
Task<BodyEnd> named_json_body(BodyContext& c);
Task<BodyEnd> python_tag_body(BodyContext& c);
Task<BodyEnd> python_calls_body(BodyContext& c);
Task<BodyEnd> kimi_k3_body(BodyContext& c);
Task<BodyEnd> minimax_m3_body(BodyContext& c);
Task<BodyEnd> derived_body(BodyContext& c);

// --- parts they share

// Call objects in one JSON value: an object or an array of them.
struct CallObjectsOptions {
  Source source;
  JsonOptions json;
  // Ids may stand behind the arguments: a call is not announced before its object is complete.
  bool late_ids = false;
  // A name that means "no call".
  std::string_view no_call;
};
Task<BodyEnd> read_call_objects(BodyContext& c, CallObjectsOptions options);

// Arguments of the open call as one JSON object; closes the call.
Task<BodyEnd> read_json_arguments(BodyContext& c, JsonOptions json);

// `(` was read: `{..})` or `K=J, ..)` of call `name`. Opens and closes it.
Task<BodyEnd> read_python_arguments(BodyContext& c, Source source, std::string name);

// GLM's pairs of call `name`, up to `</tool_call>`. Opens and closes it.
Task<BodyEnd> read_argument_pairs(BodyContext& c, std::string name);
// `K=V ..` on one line, of call `name`. Opens and closes it.
Task<BodyEnd> read_attributes(BodyContext& c, std::string name);

// One `<function=NAME>..</function>`, the opener not consumed.
Task<BodyEnd> read_function(BodyContext& c);

// Options of the dialects whose JSON is Gemma's or Python's.
JsonOptions gemma_json(std::span<const std::string_view> closers);
JsonOptions python_json(std::span<const std::string_view> closers);

// Reads the value of a parameter up to the first of `stops`, which begin with `lead` and end the value where
// they stand; parts go to the writer. The index of the stop, consumed if it says so, or one of the two below.
struct ValueStop {
  std::string_view text;
  bool consume = true;
  bool line_start = false;  // counts only at the start of a line
};
inline constexpr int kValueEnded = -1;     // the text ended inside the value
inline constexpr int kValueTooLarge = -2;  // more than kMaxArgumentBytes
inline auto read_value(Input& input, ArgumentsWriter& writer, std::span<const ValueStop> stops,
                       char lead = '<') {
  return input.when([&writer, stops, lead](Input& in) -> std::optional<int> {
    for (;;) {
      const std::string_view text = in.view();
      const std::size_t found = text.find(lead);
      const std::size_t plain = found == text.npos ? text.size() : found;
      if (!writer.part(text.substr(0, plain))) return kValueTooLarge;
      in.skip(plain);
      if (found == text.npos) return in.ended() ? std::optional<int>(kValueEnded) : std::nullopt;
      const std::string_view rest = in.view();
      bool may_come = false;
      for (std::size_t i = 0; i < stops.size(); ++i) {
        if (stops[i].line_start && !writer.at_line_start()) continue;
        if (rest.starts_with(stops[i].text)) {
          if (stops[i].consume) in.skip(stops[i].text.size());
          return static_cast<int>(i);
        }
        may_come = may_come || stops[i].text.starts_with(rest);
      }
      if (may_come && !in.ended()) return std::nullopt;
      if (!writer.part(rest.substr(0, 1))) return kValueTooLarge;
      in.skip(1);
    }
  });
}

}  // namespace gezel::turn
