// MiniMax M3 (F3): every tag follows `]<]minimax[>[`. Parameters are tags of their own name; objects are tags
// inside them, arrays are <item> tags.
#include <array>
#include <vector>

#include "turn/body.h"

namespace gezel::turn {
namespace {

constexpr std::string_view kTag = "]<]minimax[>[<";
constexpr std::size_t kMaxNesting = 16;

BodyEnd bad(BodyContext& c) {
  return c.give_up(c.in.ended() ? BodyEnd::truncated : BodyEnd::malformed);
}

// The next tag behind white space, between `<` and `>`; nothing if there is none.
Task<std::optional<std::string>> next_tag(BodyContext& c) {
  static constexpr std::array<std::string_view, 1> kOpen = {kTag};
  if (co_await c.in.after_space(kOpen) < 0) co_return std::nullopt;
  co_return co_await c.in.until(">", "\n<");
}

// A value with tags in it. Each level is an object, or an array where its tags are items.
struct Level {
  std::string name;
  std::string text;
  json::object members;
  json::array items;
  bool structured = false, array = false;

  void add(const std::string& tag, json::value value) {
    if (tag == "item") {
      array = true;
      items.push_back(std::move(value));
    } else {
      members.insert_or_assign(tag, std::move(value));
    }
  }
  json::value take() {
    if (!structured) return json::value(text);
    return array ? json::value(std::move(items)) : json::value(std::move(members));
  }
};

// The text up to the next tag, which is consumed up to its `<`.
auto text_before_tag(Input& input, std::string& out, std::size_t& room) {
  return input.when([&, from = std::size_t{0}](Input& in) mutable -> std::optional<BodyEnd> {
    const std::string_view text = in.view();
    const std::size_t found = text.find(kTag, from);
    if (std::min(found, text.size()) > room) return BodyEnd::malformed;
    if (found == text.npos) {
      from = text.size() > kTag.size() ? text.size() - kTag.size() : 0;
      return in.ended() ? std::optional<BodyEnd>(BodyEnd::truncated) : std::nullopt;
    }
    out += text.substr(0, found);
    room -= found;
    in.skip(found + kTag.size());
    return BodyEnd::complete;
  });
}

// A value that consists of tags, to the closer of parameter `name`: JSON that is fitted to the schema.
Task<BodyEnd> read_structure(BodyContext& c, ArgumentsWriter& writer, std::string name) {
  std::vector<Level> levels(1);
  levels.back().name = name;
  std::size_t room = kMaxArgumentBytes;
  for (;;) {
    const BodyEnd end = co_await text_before_tag(c.in, levels.back().text, room);
    if (end != BodyEnd::complete) co_return c.give_up(end);
    const std::optional<std::string> tag = co_await c.in.until(">", "\n<");
    if (!tag || tag->empty()) co_return bad(c);
    if (tag->front() != '/') {
      if (levels.size() == kMaxNesting) co_return c.give_up(BodyEnd::malformed);
      levels.back().structured = true;
      levels.push_back({.name = *tag});
      continue;
    }
    if (std::string_view(*tag).substr(1) != levels.back().name) co_return c.give_up(BodyEnd::malformed);
    const std::string inner = std::move(levels.back().name);
    json::value value = levels.back().take();
    levels.pop_back();
    if (levels.empty()) {
      co_return writer.value(name, std::move(value)) ? BodyEnd::complete : c.give_up(BodyEnd::malformed);
    }
    levels.back().add(inner, std::move(value));
  }
}

// From the text of parameter `name` to its closer.
Task<BodyEnd> read_parameter(BodyContext& c, ArgumentsWriter& writer, std::string name) {
  static constexpr std::array<std::string_view, 2> kTags = {"]<]minimax[>[</", "]<]minimax[>[<"};
  static constexpr std::array<ValueStop, 1> kStop = {{{.text = kTag}}};
  const int first = co_await c.in.when([](Input& in) -> std::optional<int> {
    const std::string_view text = in.view();
    for (int i = 0; i < 2; ++i) {
      if (text.starts_with(kTags[static_cast<std::size_t>(i)])) return i;
    }
    return kTags[0].starts_with(text) && !in.ended() ? std::nullopt : std::optional<int>(-1);
  });
  if (first == 1) co_return co_await read_structure(c, writer, std::move(name));
  writer.begin_value(name, MarkupValue::verbatim);
  const int stop = co_await read_value(c.in, writer, kStop, ']');
  if (stop != 0) co_return c.give_up(stop == kValueEnded ? BodyEnd::truncated : BodyEnd::malformed);
  const std::optional<std::string> tag = co_await c.in.until(">", "\n<");
  if (!tag) co_return bad(c);
  if (*tag != "/" + name) co_return c.give_up(BodyEnd::malformed);
  writer.end_value();
  co_return BodyEnd::complete;
}

Task<BodyEnd> read_call(BodyContext& c, std::string_view tag) {
  const std::size_t begin = tag.find('"'), end = tag.rfind('"');
  if (begin == end) co_return bad(c);
  c.book.open(family_form(3), tag.substr(begin + 1, end - begin - 1), {});
  ArgumentsWriter writer(c.book);
  for (;;) {
    std::optional<std::string> parameter = co_await next_tag(c);
    if (!parameter || parameter->empty()) co_return bad(c);
    if (*parameter == "/invoke") break;
    if (parameter->front() == '/') co_return c.give_up(BodyEnd::malformed);
    const BodyEnd read = co_await read_parameter(c, writer, *std::move(parameter));
    if (read != BodyEnd::complete) co_return read;
  }
  writer.close(c.span(), c.captured);
  c.next_call();
  co_return BodyEnd::complete;
}

}  // namespace

Task<BodyEnd> minimax_m3_body(BodyContext& c) {
  for (bool any = false;; any = true) {
    const std::optional<std::string> tag = co_await next_tag(c);
    if (!tag) co_return any&& co_await c.in.peek_after_space() < 0 ? BodyEnd::complete : bad(c);
    if (*tag == "/tool_call") co_return any ? BodyEnd::complete : c.give_up(BodyEnd::malformed);
    if (!tag->starts_with("invoke name=\"")) co_return c.give_up(BodyEnd::malformed);
    const BodyEnd end = co_await read_call(c, *tag);
    if (end != BodyEnd::complete) co_return end;
  }
}

}  // namespace gezel::turn
