// Calls written like Python: NAME(K=J, ..) in lists (S19) or lines (F8), NAME.call(..) behind Llama's tag
// (S15), and the arguments of NAME(..) inside <tool_call> (S8).
#include <array>

#include "turn/body.h"
#include "turn/tolerant_json.h"

namespace gezel::turn {
namespace {

template <std::size_t N>
using List = std::array<std::string_view, N>;

BodyEnd bad(BodyContext& c) {
  return c.give_up(c.in.ended() ? BodyEnd::truncated : BodyEnd::malformed);
}

// `=` or `:`; not `==`.
auto key_separator(Input& input) {
  return input.when([](Input& in) -> std::optional<bool> {
    const std::string_view text = in.view();
    if (text.empty()) return in.ended() ? std::optional<bool>(false) : std::nullopt;
    if (text.front() == ':') {
      in.skip(1);
      return true;
    }
    if (text.front() != '=') return false;
    if (text.size() == 1 && !in.ended()) return std::nullopt;
    if (text.size() > 1 && text[1] == '=') return false;
    in.skip(1);
    return true;
  });
}

// One value; consumed if it is complete.
Task<BodyEnd> read_python_value(BodyContext& c, json::value& value, int& level) {
  JsonOptions options = python_json({});
  options.keyword_value = true;
  JsonExtent extent(options);
  const JsonStatus status =
      co_await c.in.when([&, fed = std::size_t{0}](Input& in) mutable -> std::optional<JsonStatus> {
        const std::string_view text = in.view();
        extent.feed(text.substr(fed));
        fed = text.size();
        if (in.ended() && extent.status() == JsonStatus::incomplete) extent.finish(c.text_end());
        if (extent.status() == JsonStatus::incomplete) return std::nullopt;
        return extent.status();
      });
  if (status == JsonStatus::truncated) co_return BodyEnd::truncated;
  if (status != JsonStatus::complete) co_return BodyEnd::malformed;
  const std::size_t size = std::min(extent.end(), c.in.view().size());
  JsonRead read = read_json(c.in.view().substr(0, size), options);
  if (read.status != JsonStatus::complete) co_return BodyEnd::malformed;
  c.in.skip(size);
  value = std::move(read.value);
  level = std::max(level, std::max(read.level, extent.level()));
  co_return BodyEnd::complete;
}

// A list of calls that is no JSON: `NAME(..)`, separated by commas or lines.
Task<BodyEnd> read_calls(BodyContext& c, Source source) {
  static constexpr List<1> kComma = {","};
  for (;;) {
    co_await c.in.skip_space();
    std::string name = co_await c.in.name();
    if (name.empty()) co_return bad(c);
    co_await c.in.skip_space();
    if (!co_await c.in.literal("(")) {
      c.cut_name = name;
      co_return bad(c);
    }
    const BodyEnd end = co_await read_python_arguments(c, source, std::move(name));
    if (end != BodyEnd::complete) co_return end;
    const bool comma = co_await c.in.after_space(kComma) == 0;
    if (!comma && !is_name_start(static_cast<char>(co_await c.in.peek_after_space()))) {
      co_return BodyEnd::complete;
    }
  }
}

}  // namespace

Task<BodyEnd> read_python_arguments(BodyContext& c, Source source, std::string name) {
  static constexpr List<1> kEnd = {")"};
  c.book.open(source, name, {});
  if (co_await c.in.peek_after_space() == '{') {
    co_await c.in.skip_space();
    const BodyEnd end = co_await read_json_arguments(c, python_json(kEnd));
    if (end == BodyEnd::complete) co_await c.in.after_space(kEnd);
    co_return end;
  }
  ArgumentsWriter writer(c.book);
  int level = 0;
  while (co_await c.in.after_space(kEnd) < 0) {
    co_await c.in.skip_space();
    const std::string key = co_await c.in.name();
    if (key.empty()) {
      if (co_await c.in.peek() >= 0) co_return c.give_up(BodyEnd::malformed);
      // Only the last bracket is missing.
      if (c.cut || writer.size() == 0) co_return c.give_up(BodyEnd::truncated);
      level = 11;
      break;
    }
    co_await c.in.skip_space();
    if (!co_await key_separator(c.in)) co_return bad(c);
    co_await c.in.skip_space();
    json::value value;
    const BodyEnd end = co_await read_python_value(c, value, level);
    if (end != BodyEnd::complete) co_return c.give_up(end);
    if (!writer.value(key, std::move(value))) co_return c.give_up(BodyEnd::malformed);
    co_await c.in.skip_space();
    co_await c.in.literal(",");
  }
  writer.close(c.span(), c.captured, level);
  c.next_call();
  co_return BodyEnd::complete;
}

Task<BodyEnd> python_calls_body(BodyContext& c) {
  static constexpr List<1> kListEnd = {"]"};
  if (c.dialect.source == family_form(8)) {
    const BodyEnd end = co_await read_calls(c, family_form(8));
    if (end == BodyEnd::complete) co_await c.in.after_space(c.dialect.closers);
    co_return end;
  }
  if (co_await c.in.peek_after_space() != '[') co_return bad(c);
  // `[{` is JSON, `[NAME(` is a list of calls.
  const int second = co_await c.in.when([](Input& in) -> std::optional<int> {
    const std::string_view text = in.view();
    const std::size_t bracket = text.find('[');
    std::size_t at = bracket + 1;
    while (at < text.size() && is_space(text[at])) ++at;
    if (at < text.size()) return static_cast<unsigned char>(text[at]);
    return in.ended() || at > kMaxSpace ? std::optional<int>(-1) : std::nullopt;
  });
  BodyEnd end = BodyEnd::complete;
  if (second == '{' || second == ']') {
    end = co_await read_call_objects(c, {.source = c.dialect.source, .json = {.closers = c.dialect.closers}});
  } else {
    co_await c.in.skip_space();
    c.in.skip(1);
    end = co_await read_calls(c, c.dialect.source);
    if (end == BodyEnd::complete) co_await c.in.after_space(kListEnd);
  }
  if (end == BodyEnd::complete) co_await c.in.after_space(c.dialect.closers);
  co_return end;
}

Task<BodyEnd> python_tag_body(BodyContext& c) {
  static constexpr List<1> kNext = {";"};
  const int first = co_await c.in.peek_after_space();
  BodyEnd end = BodyEnd::complete;
  if (first == '{' || first == '[') {
    do {
      end =
          co_await read_call_objects(c, {.source = c.dialect.source, .json = {.closers = c.dialect.closers}});
    } while (end == BodyEnd::complete && co_await c.in.after_space(kNext) == 0);
  } else {
    co_await c.in.skip_space();
    std::string name = co_await c.in.name();
    if (name.empty() || !co_await c.in.literal("(")) {
      c.cut_name = name;
      co_return bad(c);
    }
    if (name.ends_with(".call")) name.resize(name.size() - 5);
    end = co_await read_python_arguments(c, c.dialect.source, std::move(name));
  }
  if (end == BodyEnd::complete) co_await c.in.after_space(c.dialect.closers);
  co_return end;
}

}  // namespace gezel::turn
