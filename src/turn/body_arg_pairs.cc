// GLM's pairs (S5): <arg_key>K</arg_key> <arg_value>V</arg_value>. A missing tag is put back where the others
// make its place unique.
#include <array>

#include "turn/body.h"

namespace gezel::turn {
namespace {

constexpr std::string_view kKeyEnd = "</arg_key>";
constexpr std::string_view kValue = "<arg_value>";
constexpr std::string_view kValueEnd = "</arg_value>";

// The key: ends at its closer, or where the value's opener shows that the closer is missing. Nothing if
// neither comes. `value_opened` tells which.
auto read_key(Input& input, bool& value_opened) {
  return input.when([&value_opened](Input& in) -> std::optional<std::optional<std::string>> {
    const std::string_view text = in.view().substr(0, kMaxName + kValue.size());
    const std::size_t at = text.find('<');
    if (at != text.npos) {
      for (const std::string_view tag : {kKeyEnd, kValue}) {
        if (text.substr(at).starts_with(tag)) {
          std::string key(text.substr(0, at));
          value_opened = tag == kValue;
          in.skip(at + tag.size());
          return key;
        }
        if (!in.ended() && text.size() < at + tag.size() && tag.starts_with(text.substr(at))) {
          return std::nullopt;
        }
      }
      return std::optional<std::string>();
    }
    if (in.ended() || text.size() > kMaxName) return std::optional<std::string>();
    return std::nullopt;
  });
}

// The closer of the value is missing if here a pair begins whose key is a parameter that has no value yet.
auto next_pair_here(Input& input, const ArgumentsWriter& writer, const ToolSchema* tool) {
  return input.when([&writer, tool](Input& in) -> std::optional<bool> {
    constexpr std::string_view kKey = "<arg_key>";
    const std::string_view text = in.view().substr(kKey.size(), kMaxName + kKeyEnd.size());
    const std::size_t end = text.find(kKeyEnd);
    if (end == text.npos) {
      if (in.ended() || text.size() == kMaxName + kKeyEnd.size()) return false;
      return std::nullopt;
    }
    const std::string_view key = text.substr(0, end);
    return tool && tool->property(match_key(*tool, key)) && !writer.has(key);
  });
}

// `</tool_call>` inside a value is text if the value's own closer comes later. Where it does not come, the
// value ends here. `known` is the offset up to which the answer is yes.
auto closer_comes(Input& input, std::size_t& known) {
  return input.when([&known, from = std::size_t{0}](Input& in) mutable -> std::optional<bool> {
    if (in.offset() < known) return true;
    const std::string_view text = in.view();
    const std::size_t found = text.find(kValueEnd, from);
    if (found != text.npos) {
      known = in.offset() + found;
      return true;
    }
    from = text.size() > kValueEnd.size() ? text.size() - kValueEnd.size() : 0;
    if (in.ended() || text.size() > kMaxArgumentBytes) return false;
    return std::nullopt;
  });
}

}  // namespace

Task<BodyEnd> read_argument_pairs(BodyContext& c, std::string name) {
  static constexpr std::array<ValueStop, 3> kStops = {{
      {.text = kValueEnd},
      {.text = "</tool_call>", .consume = false},
      {.text = "<arg_key>", .consume = false},
  }};
  static constexpr std::array<std::string_view, 2> kPair = {"<arg_key>", "<arg_value>"};
  c.book.open(strong(5), name, {});
  ArgumentsWriter writer(c.book);
  std::size_t known = 0;
  for (;;) {
    if (co_await c.in.after_space(c.dialect.closers) >= 0) break;
    const int next = co_await c.in.peek_after_space();
    if (next < 0) {
      // Without its closer the call needs at least one pair, and must not have been cut.
      if (writer.size() == 0 || c.cut) co_return c.give_up(BodyEnd::truncated);
      break;
    }
    const int tag = co_await c.in.after_space(kPair);
    if (tag == 1) co_return c.give_up(BodyEnd::malformed);  // a value without a key
    if (tag < 0) {
      if (!is_name_start(static_cast<char>(next))) {
        // Something else follows; what there is, is the call.
        if (writer.size() == 0) co_return c.give_up(BodyEnd::malformed);
        break;
      }
      co_await c.in.skip_space();
    }
    bool value_opened = false;
    std::optional<std::string> key = co_await read_key(c.in, value_opened);
    if (!key && tag < 0 && writer.size() > 0) break;
    if (!key) co_return c.give_up(c.in.ended() ? BodyEnd::truncated : BodyEnd::malformed);
    // The value's own opener may be missing as well.
    if (!value_opened) co_await c.in.after_space(std::span(kPair).last(1));
    while (!key->empty() && is_space(key->back())) key->pop_back();
    writer.begin_value(*key, MarkupValue::verbatim);
    for (bool open = true; open;) {
      switch (co_await read_value(c.in, writer, kStops)) {
        case 0:
          open = false;
          break;
        case 1:
          open = co_await closer_comes(c.in, known);
          break;
        case 2:
          open = !co_await next_pair_here(c.in, writer, c.book.tool());
          break;
        case kValueEnded:
          co_return c.give_up(BodyEnd::truncated);
        default:
          co_return c.give_up(BodyEnd::malformed);
      }
      // What looked like an end is text.
      if (open) {
        writer.part(c.in.view().substr(0, 1));
        c.in.skip(1);
      }
    }
    writer.end_value();
  }
  writer.close(c.span(), c.captured);
  c.next_call();
  co_return BodyEnd::complete;
}

}  // namespace gezel::turn
