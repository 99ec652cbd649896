// What is written inside <tool_call>: S1 and S5 to S8, S12 and S13, and S2, S4, S9 where their openers
// follow. The first character that is not white space, and what stands behind the name, tell which.
#include <array>

#include "turn/body.h"

namespace gezel::turn {
namespace {

constexpr std::array<std::string_view, 1> kReopen = {"<tool_call>"};

// `<tool_call>` behind a Gemma body closes it, unless a call follows.
auto reopen_closes(Input& input) {
  return input.when([](Input& in) -> std::optional<bool> {
    const std::string_view text = in.view();
    std::size_t at = 0;
    while (at < text.size() && is_space(text[at])) ++at;
    const std::string_view tag = kReopen[0];
    if (!in.ended() && text.size() < at + tag.size() && tag.starts_with(text.substr(at))) return std::nullopt;
    if (at > kMaxSpace || !text.substr(at).starts_with(tag)) return false;
    std::size_t after = at + tag.size();
    while (after < text.size() && is_space(text[after])) ++after;
    if (after == text.size() && !in.ended() && after - at < kMaxSpace) return std::nullopt;
    const char next = after < text.size() ? text[after] : '\0';
    if (is_name_start(next) || next == '{' || next == '[' || next == '<') return false;
    in.skip(at + tag.size());
    return true;
  });
}

// NAME and Gemma's or plain JSON behind it.
Task<BodyEnd> name_and_json(BodyContext& c, std::string name, bool gemma, bool piped) {
  const bool native = gemma || piped;
  c.book.open(native ? strong(12) : strong(6), name, {});
  JsonOptions json{.gemma_quotes = true, .closers = c.dialect.closers};
  if (native) json = gemma_json(c.dialect.closers);
  const BodyEnd end = co_await read_json_arguments(c, json);
  if (end != BodyEnd::complete || !native) co_return end;
  if (co_await c.in.after_space(c.dialect.closers) >= 0) co_return end;
  if (piped) {
    co_await c.in.after_space(kReopen);
  } else {
    co_await reopen_closes(c.in);
  }
  co_return end;
}

}  // namespace

Task<BodyEnd> tagged_body(BodyContext& c) {
  static constexpr std::array<std::string_view, 3> kTags = {"<function=", "<invoke name=\"",
                                                            "<function name=\""};
  static constexpr std::array<std::string_view, 2> kPairs = {"<arg_key>", "<arg_value>"};
  const bool piped = c.dialect.source == strong(12);
  const int first = co_await c.in.peek_after_space();
  if (first < 0) co_return c.give_up(BodyEnd::truncated);
  if (first == '{' || first == '[') {
    const Source source = piped && first == '[' ? strong(13) : strong(1);
    co_return co_await read_call_objects(
        c, {.source = source, .json = {.gemma_quotes = true, .closers = c.dialect.closers}});
  }
  if (first == '<') {
    switch (co_await c.in.after_space(kTags, true)) {
      case 0:
        co_return co_await function_tags_body(c);
      case 1:
        co_return co_await invoke_xml_body(c);
      case 2:
        co_return co_await param_form_body(c);
      default:
        co_return c.give_up(BodyEnd::malformed);
    }
  }

  co_await c.in.skip_space();
  const bool gemma = co_await c.in.literal("call:");
  if (gemma) co_await c.in.skip_space();
  std::string name = co_await c.in.name();
  if (name.empty()) co_return c.give_up(co_await c.in.peek() < 0 ? BodyEnd::truncated : BodyEnd::malformed);
  if (co_await c.in.literal("(")) {
    co_return co_await read_python_arguments(c, gemma || piped ? strong(12) : strong(8), std::move(name));
  }
  const int next = co_await c.in.peek_after_space();
  if (next < 0) {
    c.cut_name = name;
    co_return c.give_up(BodyEnd::truncated);
  }
  if (next == '{') {
    co_await c.in.skip_space();
    co_return co_await name_and_json(c, std::move(name), gemma, piped);
  }
  if (next == '<') {
    const bool pairs = co_await c.in.after_space(kPairs, true) >= 0;
    const bool closed = !pairs && co_await c.in.after_space(c.dialect.closers, true) >= 0;
    if (pairs || closed) co_return co_await read_argument_pairs(c, std::move(name));
    co_return c.give_up(BodyEnd::malformed);
  }
  // `K=` on the same line, or a pair whose first tag is missing.
  if (!is_name_start(static_cast<char>(next))) co_return c.give_up(BodyEnd::malformed);
  enum class Next { attribute, pair, neither };
  const Next kind = co_await c.in.when([](Input& in) -> std::optional<Next> {
    const std::string_view text = in.view();
    std::size_t at = 0;
    bool same_line = true;
    for (; at < text.size() && is_space(text[at]); ++at) same_line = same_line && text[at] != '\n';
    const std::size_t begin = at;
    while (at < text.size() && at - begin < kMaxName && is_name_char(text[at])) ++at;
    constexpr std::string_view kEnd = "</arg_key>";
    const std::string_view rest = text.substr(at);
    if (rest.starts_with(kEnd)) return Next::pair;
    if (rest.starts_with('=')) return same_line ? Next::attribute : Next::neither;
    if (!in.ended() && at - begin < kMaxName && kEnd.starts_with(rest)) return std::nullopt;
    return Next::neither;
  });
  switch (kind) {
    case Next::attribute:
      co_return co_await read_attributes(c, std::move(name));
    case Next::pair:
      co_return co_await read_argument_pairs(c, std::move(name));
    case Next::neither:
      break;
  }
  co_return c.give_up(BodyEnd::malformed);
}

Task<BodyEnd> read_attributes(BodyContext& c, std::string name) {
  c.book.open(strong(7), name, {});
  ArgumentsWriter writer(c.book);
  for (;;) {
    // Blanks, and the end of the line.
    const int next = co_await c.in.when([](Input& in) -> std::optional<int> {
      const std::string_view text = in.view();
      const std::size_t at = text.find_first_not_of(" \t\r");
      if (at == text.npos) {
        in.skip(text.size());
        return in.ended() ? std::optional<int>(-1) : std::nullopt;
      }
      in.skip(at);
      return static_cast<unsigned char>(text[at]);
    });
    if (next < 0 && c.cut) co_return c.give_up(BodyEnd::truncated);
    if (next < 0 || next == '\n') break;
    if (next == '<') {
      if (co_await c.in.after_space(c.dialect.closers) < 0) co_return c.give_up(BodyEnd::malformed);
      break;
    }
    const std::string key = co_await c.in.name();
    if (key.empty() || !co_await c.in.literal("=")) {
      co_return c.give_up(co_await c.in.peek() < 0 ? BodyEnd::truncated : BodyEnd::malformed);
    }
    const int quote = co_await c.in.peek();
    writer.begin_value(key, MarkupValue::verbatim);
    const bool quoted = quote == '"' || quote == '\'';
    if (quoted) c.in.skip(1);
    const BodyEnd end =
        co_await c.in.when([&, stop = static_cast<char>(quote)](Input& in) -> std::optional<BodyEnd> {
          const std::string_view text = in.view();
          std::size_t at = 0;
          const auto ends = [&](char ch) {
            return quoted ? ch == stop || ch == '\n' : is_space(ch) || ch == '<';
          };
          while (at < text.size() && !ends(text[at])) ++at;
          if (!writer.part(text.substr(0, at))) return BodyEnd::malformed;
          in.skip(at);
          if (at < text.size()) return quoted && text[at] == '\n' ? BodyEnd::malformed : BodyEnd::complete;
          if (!in.ended()) return std::nullopt;
          return quoted || c.cut ? BodyEnd::truncated : BodyEnd::complete;
        });
    if (end != BodyEnd::complete) co_return c.give_up(end);
    if (quoted) c.in.skip(1);
    writer.end_value();
  }
  writer.close(c.span(), c.captured);
  c.next_call();
  co_return BodyEnd::complete;
}

}  // namespace gezel::turn
