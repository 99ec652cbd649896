// Parameters between tags of their own: <function=NAME> (S2, S23), with JSON in place of parameters (S3), and
// <function name="NAME"> (S4).
#include <array>

#include "turn/body.h"

namespace gezel::turn {
namespace {

constexpr std::array<std::string_view, 1> kFunction = {"<function="};

// What may stand between the parts of a function.
enum Part { kParameter, kFunctionEnd, kCallEnd, kNextFunction };
constexpr std::array<std::string_view, 4> kParts = {"<parameter=", "</function>", "</tool_call>",
                                                    "<function="};

constexpr std::array<ValueStop, 5> kValueStops = {{
    {.text = "</parameter>"},
    {.text = "</function>", .consume = false},
    {.text = "</tool_call>", .consume = false},
    {.text = "<function=", .consume = false},
    {.text = "<parameter=", .consume = false, .line_start = true},
}};

}  // namespace

Task<BodyEnd> read_function(BodyContext& c) {
  co_await c.in.literal(kFunction[0]);
  const std::optional<std::string> name = co_await c.in.until(">", "\n<");
  if (!name || name->empty()) co_return c.give_up(c.in.ended() ? BodyEnd::truncated : BodyEnd::malformed);

  if (co_await c.in.peek_after_space() == '{') {
    static constexpr std::array<std::string_view, 2> kEnd = {"</function>", "</tool_call>"};
    co_await c.in.skip_space();
    c.book.open(strong(3), *name, {});
    const BodyEnd end = co_await read_json_arguments(c, {.closers = kEnd});
    if (end == BodyEnd::complete) co_await c.in.after_space(std::span(kEnd).first(1));
    co_return end;
  }

  c.book.open(c.dialect.source == strong(23) ? strong(23) : strong(2), *name, {});
  ArgumentsWriter writer(c.book);
  for (bool open = true; open;) {
    switch (co_await c.in.after_space(kParts, true)) {
      case kParameter: {
        co_await c.in.literal(kParts[kParameter]);
        const std::optional<std::string> key = co_await c.in.until(">", "\n<");
        if (!key || key->empty()) {
          co_return c.give_up(c.in.ended() ? BodyEnd::truncated : BodyEnd::malformed);
        }
        writer.begin_value(*key, MarkupValue::trimmed_line);
        const int stop = co_await read_value(c.in, writer, kValueStops);
        if (stop == kValueTooLarge) co_return c.give_up(BodyEnd::malformed);
        if (stop == kValueEnded) co_return c.give_up(BodyEnd::truncated);
        writer.end_value();
        break;
      }
      case kFunctionEnd:
        co_await c.in.literal(kParts[kFunctionEnd]);
        open = false;
        break;
      case kCallEnd:
      case kNextFunction:
        open = false;  // its own end is missing
        break;
      default:
        // All parameters are closed, only the function is open: that is tolerated unless more was to come.
        if (co_await c.in.peek_after_space() >= 0) co_return c.give_up(BodyEnd::malformed);
        if (c.cut || writer.size() == 0) co_return c.give_up(BodyEnd::truncated);
        open = false;
    }
  }
  writer.close(c.span(), c.captured);
  c.next_call();
  co_return BodyEnd::complete;
}

Task<BodyEnd> function_tags_body(BodyContext& c) {
  if (co_await c.in.after_space(kFunction, true) < 0) {
    co_return c.give_up(co_await c.in.peek_after_space() < 0 ? BodyEnd::truncated : BodyEnd::malformed);
  }
  do {
    const BodyEnd end = co_await read_function(c);
    if (end != BodyEnd::complete) co_return end;
  } while (co_await c.in.after_space(kFunction, true) >= 0);
  if (c.dialect.source == strong(23)) co_await c.in.after_space(c.dialect.closers);
  co_return BodyEnd::complete;
}

Task<BodyEnd> param_form_body(BodyContext& c) {
  static constexpr std::array<std::string_view, 2> kFormParts = {"<param name=\"", "</function>"};
  static constexpr std::array<std::string_view, 1> kData = {"<![CDATA["};
  static constexpr std::array<std::string_view, 1> kParamEnd = {"</param>"};
  static constexpr std::array<ValueStop, 1> kPlainStop = {{{.text = "</param>"}}};
  static constexpr std::array<ValueStop, 1> kDataStop = {{{.text = "]]>"}}};
  co_await c.in.literal("<function name=\"");
  const std::optional<std::string> name = co_await c.in.until("\"", "\n<");
  if (!name || !co_await c.in.literal(">")) {
    co_return c.give_up(c.in.ended() ? BodyEnd::truncated : BodyEnd::malformed);
  }
  c.book.open(strong(4), *name, {});
  ArgumentsWriter writer(c.book);
  for (;;) {
    const int part = co_await c.in.after_space(kFormParts);
    if (part == 1) break;
    if (part < 0) {
      co_return c.give_up(co_await c.in.peek_after_space() < 0 ? BodyEnd::truncated : BodyEnd::malformed);
    }
    const std::optional<std::string> key = co_await c.in.until("\"", "\n<");
    if (!key || !co_await c.in.literal(">")) {
      co_return c.give_up(c.in.ended() ? BodyEnd::truncated : BodyEnd::malformed);
    }
    writer.begin_value(*key, MarkupValue::verbatim);
    const bool data = co_await c.in.after_space(kData) == 0;
    const int stop = data ? co_await read_value(c.in, writer, kDataStop, ']')
                          : co_await read_value(c.in, writer, kPlainStop);
    if (stop == kValueTooLarge) co_return c.give_up(BodyEnd::malformed);
    if (stop == kValueEnded) co_return c.give_up(BodyEnd::truncated);
    writer.end_value();
    if (data) co_await c.in.after_space(kParamEnd);
  }
  writer.close(c.span(), c.captured);
  c.next_call();
  co_return BodyEnd::complete;
}

}  // namespace gezel::turn
