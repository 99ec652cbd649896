// Invoke XML: <invoke name="NAME"> <parameter name="K">V</parameter> .. </invoke>, alone or in a wrapper.
// Tags may carry a namespace (S9, S10, F10) or DeepSeek's DSML prefix (S11); values of the latter may be
// JSON.
#include <array>

#include "turn/body.h"
#include "turn/tolerant_json.h"

namespace gezel::turn {
namespace {

// Spellings of the DSML prefix, which models also lose parts of.
constexpr std::array<std::string_view, 4> kDsml = {"｜DSML｜", "|DSML|", "DSML｜", "DSML|"};
constexpr std::size_t kMaxPrefix = 32;

struct Tag {
  bool close = false;
  std::string prefix;  // with its colon; empty if there is none
  std::string_view name;
};

// One of the tags of the grammar behind white space, up to the end of its name; of an opening tag with a name
// attribute, up to the quote. Nothing (and nothing is consumed) if there is none.
class TagReader {
 public:
  std::optional<std::optional<Tag>> operator()(Input& in) {
    const std::string_view text = in.view();
    while (space_ < text.size() && is_space(text[space_])) ++space_;
    if (space_ > kMaxSpace) return std::optional<Tag>();
    const std::string_view rest = text.substr(space_);
    const std::optional<std::optional<Tag>> undecided;
    const auto shorter = [&](std::string_view tail, std::string_view whole) {
      return !in.ended() && tail.size() < whole.size() && whole.starts_with(tail);
    };
    if (rest.empty()) return in.ended() ? std::optional<Tag>() : undecided;
    if (rest.front() != '<') return std::optional<Tag>();
    Tag tag;
    std::size_t at = 1;
    if (at == rest.size()) return in.ended() ? std::optional<Tag>() : undecided;
    if (rest[at] == '/') {
      tag.close = true;
      ++at;
    }
    for (const std::string_view prefix : kDsml) {
      if (rest.substr(at).starts_with(prefix)) {
        tag.prefix = prefix;
        at += prefix.size();
        break;
      }
      if (shorter(rest.substr(at), prefix)) return undecided;
    }
    if (tag.prefix.empty()) {
      std::size_t end = at;
      while (end < rest.size() && end - at <= kMaxPrefix && rest[end] >= 'a' && rest[end] <= 'z') ++end;
      if (end == rest.size() && end - at <= kMaxPrefix && !in.ended()) return undecided;
      if (end < rest.size() && end > at && rest[end] == ':') {
        tag.prefix = rest.substr(at, end + 1 - at);
        at = end + 1;
      }
    }
    constexpr auto kOpening = std::to_array<std::string_view>(
        {"invoke name=\"", "parameter name=\"", "function_calls>", "tool_calls>", "tool_call>"});
    constexpr auto kClosing = std::to_array<std::string_view>(
        {"invoke>", "parameter>", "function_calls>", "tool_calls>", "tool_call>"});
    for (const std::string_view name : tag.close ? kClosing : kOpening) {
      if (rest.substr(at).starts_with(name)) {
        tag.name = name.substr(0, name.find_first_of(" >"));
        in.skip(space_ + at + name.size());
        return std::optional<Tag>(std::move(tag));
      }
      if (shorter(rest.substr(at), name)) return undecided;
    }
    return std::optional<Tag>();
  }

 private:
  std::size_t space_ = 0;
};

// Behind the opening quote of a name attribute: the name, perhaps string="true|false", and `>`.
struct Attributes {
  std::string name;
  bool typed = false;  // string=".." says what the value is
  bool json = false;   // string="false"
};
Task<std::optional<Attributes>> read_attributes_end(BodyContext& c) {
  std::optional<std::string> name = co_await c.in.until("\"", "\n<>");
  if (!name || name->empty()) co_return std::nullopt;
  const std::optional<std::string> rest = co_await c.in.until(">", "\n<");
  if (!rest) co_return std::nullopt;
  co_return Attributes{*std::move(name), rest->contains("string="), rest->contains("string=\"false\"")};
}

// At the end of the text a span is cut; before it, what stands here fits no grammar.
BodyEnd bad(BodyContext& c) {
  return c.give_up(c.in.ended() ? BodyEnd::truncated : BodyEnd::malformed);
}

Source source_of(const Dialect& dialect, bool dsml) {
  if (dialect.source.form == Source::Form::family || dialect.source == strong(10)) return dialect.source;
  return dsml || dialect.source == strong(11) || dialect.source == strong(22) ? strong(11) : strong(9);
}

// Behind `<invoke name="`.
Task<BodyEnd> read_invoke(BodyContext& c, std::string prefix) {
  const bool dsml = !prefix.empty() && !prefix.ends_with(':');
  const std::optional<Attributes> invoke = co_await read_attributes_end(c);
  if (!invoke) co_return bad(c);
  c.book.open(source_of(c.dialect, dsml), invoke->name, {});

  if (co_await c.in.peek_after_space() == '{') {
    const std::array<std::string, 2> ends = {"</" + prefix + "invoke>", "</invoke>"};
    const std::array<std::string_view, 2> closers = {ends[0], ends[1]};
    co_await c.in.skip_space();
    const BodyEnd end = co_await read_json_arguments(c, {.closers = closers});
    if (end == BodyEnd::complete) co_await c.in.after_space(closers);
    co_return end;
  }

  // The parameter's closer in the spelling of this call, and in the others its family has.
  std::vector<std::string> closers = {"</" + prefix + "parameter>"};
  if (dsml) {
    for (const std::string_view other : kDsml) closers.push_back("</" + std::string(other) + "parameter>");
  }
  if (!prefix.empty()) closers.emplace_back("</parameter>");
  std::vector<ValueStop> stops;
  for (const std::string& closer : closers) stops.push_back({.text = closer});

  ArgumentsWriter writer(c.book);
  for (;;) {
    const std::optional<Tag> tag = co_await c.in.when(TagReader());
    if (!tag) co_return bad(c);
    if (tag->close && tag->name == "invoke") break;
    if (tag->close || tag->name != "parameter") co_return c.give_up(BodyEnd::malformed);
    const std::optional<Attributes> parameter = co_await read_attributes_end(c);
    if (!parameter) co_return bad(c);
    if (parameter->json) {
      writer.begin_json_value(parameter->name);
    } else {
      const bool verbatim = dsml || parameter->typed;
      writer.begin_value(parameter->name, verbatim ? MarkupValue::verbatim : MarkupValue::trimmed_line);
    }
    const int stop = co_await read_value(c.in, writer, stops);
    if (stop == kValueTooLarge) co_return c.give_up(BodyEnd::malformed);
    if (stop == kValueEnded) co_return c.give_up(BodyEnd::truncated);
    writer.end_value();
  }
  writer.close(c.span(), c.captured);
  c.next_call();
  co_return BodyEnd::complete;
}

}  // namespace

Task<BodyEnd> invoke_xml_body(BodyContext& c) {
  // F10 names the recipient in front, which is the call's name once more.
  if (co_await c.in.literal(" to=")) co_await c.in.until("<|message|>");
  for (bool any = false;;) {
    const std::optional<Tag> tag = co_await c.in.when(TagReader());
    if (tag && !tag->close && tag->name == "invoke") {
      const BodyEnd end = co_await read_invoke(c, tag->prefix);
      if (end != BodyEnd::complete) co_return end;
      any = true;
    } else if (tag && !tag->close && tag->name != "parameter") {
      // The wrapper opens.
    } else if (any) {
      co_return BodyEnd::complete;  // the wrapper closes, or its closer is missing
    } else {
      co_return tag ? c.give_up(BodyEnd::malformed) : bad(c);
    }
  }
}

}  // namespace gezel::turn
