// Kimi K3 (F2): tags are <|open|>NAME attributes<|sep|> .. <|close|>NAME<|sep|>. Arguments come one by one
// with their type, or all of them as one block of JSON.
#include <array>

#include "turn/body.h"

namespace gezel::turn {
namespace {

template <std::size_t N>
using List = std::array<std::string_view, N>;

BodyEnd bad(BodyContext& c) {
  return c.give_up(c.in.ended() ? BodyEnd::truncated : BodyEnd::malformed);
}

// The value of an attribute in `tag`, which is what stands between `<|open|>NAME` and `<|sep|>`.
std::string attribute(std::string_view tag, std::string_view name) {
  const std::string start = " " + std::string(name) + "=\"";
  const std::size_t found = tag.find(start);
  if (found == tag.npos) return {};
  const std::string_view rest = tag.substr(found + start.size());
  std::string value;
  for (std::size_t i = 0; i < rest.size() && rest[i] != '"';) {
    constexpr std::string_view kQuote = "&quot;", kAnd = "&amp;";
    if (rest.substr(i).starts_with(kQuote)) {
      value += '"';
      i += kQuote.size();
    } else if (rest.substr(i).starts_with(kAnd)) {
      value += '&';
      i += kAnd.size();
    } else {
      value += rest[i++];
    }
  }
  return value;
}

Task<BodyEnd> read_call(BodyContext& c) {
  enum Tag { kArgument, kJson, kCallEnd };
  static constexpr List<3> kTags = {"<|open|>argument", "<|open|>json", "<|close|>call<|sep|>"};
  static constexpr List<1> kJsonEnd = {"<|close|>json<|sep|>"};
  static constexpr List<1> kCallClose = {"<|close|>call<|sep|>"};
  static constexpr std::array<ValueStop, 1> kStop = {{{.text = "<|close|>argument<|sep|>"}}};
  const std::optional<std::string> tag = co_await c.in.until("<|sep|>", "\n");
  if (!tag) co_return bad(c);
  c.book.open(family_form(2), attribute(*tag, "tool"), {});
  ArgumentsWriter writer(c.book);
  for (;;) {
    const int next = co_await c.in.after_space(kTags);
    if (next == kCallEnd) break;
    if (next < 0) co_return bad(c);
    const std::optional<std::string> attributes = co_await c.in.until("<|sep|>", "\n");
    if (!attributes) co_return bad(c);
    if (next == kJson) {
      if (writer.size() > 0) co_return c.give_up(BodyEnd::malformed);
      const BodyEnd end = co_await read_json_arguments(c, {.closers = kJsonEnd});
      if (end != BodyEnd::complete) co_return end;
      co_await c.in.after_space(kJsonEnd);
      co_await c.in.after_space(kCallClose);
      co_return BodyEnd::complete;
    }
    const std::string key = attribute(*attributes, "key");
    const std::string type = attribute(*attributes, "type");
    if (key.empty()) co_return c.give_up(BodyEnd::malformed);
    if (type.empty() || type == "string") {
      writer.begin_value(key, MarkupValue::verbatim);
    } else {
      writer.begin_json_value(key);
    }
    const int stop = co_await read_value(c.in, writer, kStop);
    if (stop == kValueTooLarge) co_return c.give_up(BodyEnd::malformed);
    if (stop == kValueEnded) co_return c.give_up(BodyEnd::truncated);
    writer.end_value();
  }
  writer.close(c.span(), c.captured);
  c.next_call();
  co_return BodyEnd::complete;
}

}  // namespace

Task<BodyEnd> kimi_k3_body(BodyContext& c) {
  static constexpr List<1> kCall = {"<|open|>call"};
  while (co_await c.in.after_space(kCall) == 0) {
    const BodyEnd end = co_await read_call(c);
    if (end != BodyEnd::complete) co_return end;
  }
  if (co_await c.in.after_space(c.dialect.closers) == 0) co_return BodyEnd::complete;
  // Complete calls stand for themselves; the closer of the section may be missing.
  if (c.book.any() && co_await c.in.peek_after_space() < 0) co_return BodyEnd::complete;
  co_return bad(c);
}

}  // namespace gezel::turn
