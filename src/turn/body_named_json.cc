// NAME in front of one JSON object, with the separators of each dialect: Mistral (S14), DeepSeek (S16, S17),
// Kimi K2 (S18), FunctionGemma (S24), Functionary (F4), Solar (F11).
#include <array>

#include "turn/body.h"
#include "turn/regions.h"

namespace gezel::turn {
namespace {

template <std::size_t N>
using List = std::array<std::string_view, N>;

BodyEnd bad(BodyContext& c) {
  return c.give_up(c.in.ended() ? BodyEnd::truncated : BodyEnd::malformed);
}

Task<BodyEnd> mistral(BodyContext& c) {
  static constexpr List<1> kId = {"[CALL_ID]"};
  static constexpr List<1> kArguments = {"[ARGS]"};
  const int first = co_await c.in.peek_after_space();
  if (first == '[' || first == '{') {
    co_return co_await read_call_objects(c, {.source = strong(14), .late_ids = true});
  }
  co_await c.in.skip_space();
  const std::string name = co_await c.in.name();
  if (name.empty()) co_return bad(c);
  std::string id;
  if (co_await c.in.after_space(kId) == 0) {
    id = co_await c.in.when([](Input& in) -> std::optional<std::string> {
      const std::string_view text = in.view().substr(0, kMaxName);
      const std::size_t end = text.find_first_of("[{ \n");
      if (end == text.npos && text.size() < kMaxName && !in.ended()) return std::nullopt;
      std::string found(text.substr(0, end));
      in.skip(found.size());
      return found;
    });
  }
  co_await c.in.after_space(kArguments);
  const int next = co_await c.in.peek_after_space();
  if (next < 0) c.cut_name = name;
  if (next != '{') co_return bad(c);
  c.book.open(strong(14), name, id);
  co_await c.in.skip_space();
  co_return co_await read_json_arguments(c, {});
}

// DeepSeek's tokens, with the spellings of ▁.
constexpr List<4> kSectionBegin = {"<｜tool▁calls▁begin｜>", "<｜tool_calls_begin｜>",
                                   "<｜tool calls begin｜>", "<｜tool\\_calls\\_begin｜>"};
constexpr List<4> kSectionEnd = {"<｜tool▁calls▁end｜>", "<｜tool_calls_end｜>", "<｜tool calls end｜>",
                                 "<｜tool\\_calls\\_end｜>"};
constexpr List<4> kCallBegin = {"<｜tool▁call▁begin｜>", "<｜tool_call_begin｜>", "<｜tool call begin｜>",
                                "<｜tool\\_call\\_begin｜>"};
constexpr List<8> kCallEnd = {"<｜tool▁call▁end｜>",     "<｜tool_call_end｜>",     "<｜tool call end｜>",
                              "<｜tool\\_call\\_end｜>", "<｜tool▁calls▁end｜>",    "<｜tool_calls_end｜>",
                              "<｜tool calls end｜>",    "<｜tool\\_calls\\_end｜>"};
constexpr List<4> kSeparator = {"<｜tool▁sep｜>", "<｜tool_sep｜>", "<｜tool sep｜>", "<｜tool\\_sep｜>"};

Task<BodyEnd> deepseek_call(BodyContext& c) {
  static constexpr List<1> kFence = {"```json"};
  static constexpr List<1> kFenceEnd = {"```"};
  co_await c.in.skip_space();
  std::string name = co_await c.in.name();
  if (name.empty()) co_return bad(c);
  if (co_await c.in.after_space(kSeparator) < 0) co_return bad(c);
  const int next = co_await c.in.peek_after_space();
  if (next < 0) co_return c.give_up(BodyEnd::truncated);
  Source source = strong(17);
  if (next != '{') {
    // V3: `function`, then the name and a fence.
    co_await c.in.skip_space();
    name = co_await c.in.name();
    if (name.empty()) co_return bad(c);
    source = strong(16);
    co_await c.in.after_space(kFence);
  }
  c.book.open(source, name, {});
  co_await c.in.skip_space();
  const BodyEnd end = co_await read_json_arguments(c, {.closers = kCallEnd});
  if (end != BodyEnd::complete) co_return end;
  if (source == strong(16)) co_await c.in.after_space(kFenceEnd);
  co_await c.in.after_space(std::span(kCallEnd).first(4));
  co_return BodyEnd::complete;
}

Task<BodyEnd> deepseek(BodyContext& c) {
  co_await c.in.after_space(kSectionBegin);
  if (co_await c.in.after_space(kCallBegin) < 0) co_return bad(c);
  do {
    const BodyEnd end = co_await deepseek_call(c);
    if (end != BodyEnd::complete) co_return end;
  } while (co_await c.in.after_space(kCallBegin) >= 0);
  co_await c.in.after_space(kSectionEnd);
  co_return BodyEnd::complete;
}

Task<BodyEnd> kimi_call(BodyContext& c) {
  static constexpr List<2> kEnds = {"<|tool_call_end|>", "<|tool_calls_section_end|>"};
  const std::optional<std::string> written = co_await c.in.until("<|tool_call_argument_begin|>", "");
  if (!written) co_return bad(c);
  const std::string_view id = trimmed(*written);
  std::string_view name = id;
  if (name.starts_with("functions.")) name.remove_prefix(10);
  if (const std::size_t colon = name.rfind(':'); colon != name.npos) {
    const std::string_view number = name.substr(colon + 1);
    if (!number.empty() && number.find_first_not_of("0123456789") == number.npos)
      name = name.substr(0, colon);
  }
  c.book.open(strong(18), name, id);
  const BodyEnd end = co_await read_json_arguments(c, {.closers = kEnds});
  if (end == BodyEnd::complete) co_await c.in.after_space(std::span(kEnds).first(1));
  co_return end;
}

Task<BodyEnd> kimi(BodyContext& c) {
  static constexpr List<1> kSection = {"<|tool_calls_section_begin|>"};
  static constexpr List<1> kCall = {"<|tool_call_begin|>"};
  static constexpr List<1> kEnd = {"<|tool_calls_section_end|>"};
  co_await c.in.after_space(kSection);
  if (co_await c.in.after_space(kCall) < 0) co_return bad(c);
  do {
    const BodyEnd end = co_await kimi_call(c);
    if (end != BodyEnd::complete) co_return end;
  } while (co_await c.in.after_space(kCall) >= 0);
  co_await c.in.after_space(kEnd);
  co_return BodyEnd::complete;
}

Task<BodyEnd> function_gemma(BodyContext& c) {
  co_await c.in.skip_space();
  co_await c.in.literal("call:");
  const std::string name = co_await c.in.name();
  if (name.empty()) co_return bad(c);
  if (co_await c.in.peek_after_space() != '{') {
    c.cut_name = name;
    co_return bad(c);
  }
  c.book.open(strong(24), name, {});
  co_await c.in.skip_space();
  const BodyEnd end = co_await read_json_arguments(c, gemma_json(c.dialect.closers));
  if (end == BodyEnd::complete) co_await c.in.after_space(c.dialect.closers);
  co_return end;
}

Task<BodyEnd> functionary(BodyContext& c) {
  const std::string name = co_await c.in.name();
  if (name.empty()) co_return bad(c);
  if (co_await c.in.peek_after_space() < 0) {
    c.cut_name = name;
    co_return c.give_up(BodyEnd::truncated);
  }
  static constexpr List<1> kNext = {">>>"};
  c.book.open(family_form(4), name, {});
  co_return co_await read_json_arguments(c, {.closers = kNext});
}

Task<BodyEnd> solar(BodyContext& c) {
  static constexpr List<1> kCall = {"<|tool_call:begin|>"};
  static constexpr List<2> kEnds = {"<|tool_call:end|>", "<|calls|>"};
  if (co_await c.in.after_space(kCall) < 0) co_return bad(c);
  do {
    const std::optional<std::string> id = co_await c.in.until("<|tool_call:name|>", "\n");
    if (!id) co_return bad(c);
    const std::optional<std::string> name = co_await c.in.until("<|tool_call:args|>", "\n");
    if (!name) co_return bad(c);
    c.book.open(family_form(11), trimmed(*name), trimmed(*id));
    const BodyEnd end = co_await read_json_arguments(c, {.closers = kEnds});
    if (end != BodyEnd::complete) co_return end;
    co_await c.in.after_space(std::span(kEnds).first(1));
  } while (co_await c.in.after_space(kCall) >= 0);
  co_await c.in.after_space(std::span(kEnds).last(1));
  co_return BodyEnd::complete;
}

}  // namespace

Task<BodyEnd> named_json_body(BodyContext& c) {
  if (c.dialect.source == strong(14)) return mistral(c);
  if (c.dialect.source == strong(16)) return deepseek(c);
  if (c.dialect.source == strong(18)) return kimi(c);
  if (c.dialect.source == strong(24)) return function_gemma(c);
  if (c.dialect.source == family_form(4)) return functionary(c);
  return solar(c);
}

}  // namespace gezel::turn
