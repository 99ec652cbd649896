// Everything is found by position: the words of the fixtures are unique, so what stands between two of them
// is a marker, or two markers side by side. Two markers are told apart by where only one of them stands: what
// the beginning of the first call shares with the space between two calls is the opener of a call, and what
// is left opens the section.
#include "turn/derived_dialect.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "turn/call_object.h"
#include "turn/input.h"
#include "turn/parser.h"
#include "turn/regions.h"
#include "turn/tolerant_json.h"

namespace gezel::turn {
namespace {

std::size_t common_prefix(std::string_view a, std::string_view b) {
  return static_cast<std::size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}
std::size_t common_suffix(std::string_view a, std::string_view b) {
  std::size_t size = 0;
  while (size < a.size() && size < b.size() && a[a.size() - 1 - size] == b[b.size() - 1 - size]) ++size;
  return size;
}

// Splits `before` and `after`, which stand around one item of a list, and `between`, which stands between two
// items, into what opens and closes the item, what separates items, and what surrounds the list.
struct ListMarkers {
  std::string_view list_open, open, close, separator, list_close;
};
ListMarkers split_list(std::string_view before, std::string_view between, std::string_view after) {
  std::size_t close = common_prefix(after, between);
  const std::size_t longest_open = common_suffix(before, between);
  // Where both reach further than they can, markers that look alike overlap: a bracket opens the item.
  constexpr std::string_view kOpening = "<[{(";
  for (std::size_t at = between.size() - longest_open; at <= close && longest_open + close > between.size();
       ++at) {
    if (at == 0 || at >= between.size()) continue;
    if (kOpening.contains(between[at]) && !kOpening.contains(between[at - 1])) {
      close = at;
      break;
    }
  }
  const std::size_t open = std::min(longest_open, between.size() - close);
  return {before.substr(0, before.size() - open), before.substr(before.size() - open), after.substr(0, close),
          between.substr(close, between.size() - close - open), after.substr(close)};
}

// The part of a render that the call is responsible for. Markers that begin or end alike are not cut in two.
std::optional<std::string_view> call_part(std::string_view render, std::string_view text_render,
                                          std::string_view text) {
  const std::size_t at = text_render.find(text);
  if (at == text_render.npos) return std::nullopt;
  std::size_t begin = std::min(common_prefix(render, text_render), at);
  const std::size_t tail = std::min(
      {common_suffix(render, text_render), text_render.size() - at - text.size(), render.size() - begin});
  std::size_t end = render.size() - tail;
  const std::size_t open = render.substr(0, begin).find_last_of("<>");
  if (open != render.npos && render[open] == '<') begin = open;
  const std::size_t close = render.substr(0, end).find_last_of("<>");
  if (close != render.npos && close >= begin && render[close] == '<') {
    if (const std::size_t bracket = render.find('>', end); bracket != render.npos) end = bracket + 1;
  }
  return render.substr(begin, end - begin);
}

// What stands between `a` and `b`, which must follow in this order; `from` goes behind `b`.
std::optional<std::string_view> between(std::string_view text, std::size_t& from, std::string_view word) {
  const std::size_t found = text.find(word, from);
  if (found == text.npos) return std::nullopt;
  const std::string_view part = text.substr(from, found - from);
  from = found + word.size();
  return part;
}

std::string marker(std::string_view text) {
  return std::string(trimmed(text));
}

// Call objects: the JSON value that the name stands in.
bool derive_objects(DerivedDialect& found, const RenderedFixtures& f, std::string_view one,
                    std::string_view two) {
  const ToolNames names({std::string(f.name), std::string(f.name2)});
  const std::size_t name = one.find(f.name);
  for (std::size_t at = one.find_first_of("{["); at < name; at = one.find_first_of("{[", at + 1)) {
    const JsonRead read = read_json(one.substr(at));
    if (read.status != JsonStatus::complete || at + read.consumed < name) continue;
    const json::array* array = read.value.if_array();
    if (array && array->size() != 1) continue;
    const auto call = as_call_object(array ? array->front() : read.value, names);
    if (!call || call->name != f.name) continue;
    found.form = DerivedDialect::Form::object;
    const std::string_view before = one.substr(0, at), after = one.substr(at + read.consumed);
    if (array) {
      found.section_open = marker(before);
      found.section_close = marker(after);
      return true;
    }
    if (!two.starts_with(before)) return false;
    const JsonRead first = read_json(two.substr(at));
    const std::size_t second = two.find(f.name2);
    const std::size_t second_object = two.substr(0, second).rfind('{');
    if (first.status != JsonStatus::complete || second == two.npos || second_object < at + first.consumed) {
      return false;
    }
    const std::size_t end = at + first.consumed;
    const ListMarkers list = split_list(before, two.substr(end, second_object - end), after);
    found.section_open = marker(list.list_open);
    found.open = marker(list.open);
    found.close = marker(list.close);
    found.separator = marker(list.separator);
    found.section_close = marker(list.list_close);
    return true;
  }
  return false;
}

// NAME in front of its arguments. `call_end` is where the first call's arguments end in `one` and in `two`.
bool derive_list(DerivedDialect& found, const RenderedFixtures& f, std::string_view one, std::string_view two,
                 std::size_t one_end, std::size_t two_end) {
  const std::size_t second = two.find(f.name2);
  if (second == two.npos || second < two_end) return false;
  const ListMarkers list =
      split_list(one.substr(0, one.find(f.name)), two.substr(two_end, second - two_end), one.substr(one_end));
  found.section_open = marker(list.list_open);
  found.open = marker(list.open);
  found.close = marker(list.close);
  found.separator = marker(list.separator);
  found.section_close = marker(list.list_close);
  return true;
}

bool derive_json(DerivedDialect& found, const RenderedFixtures& f, std::string_view one,
                 std::string_view two) {
  const std::size_t name_end = one.find(f.name) + f.name.size();
  const std::size_t begin = one.find('{', name_end);
  if (begin == one.npos || begin > one.find(f.key)) return false;
  const JsonRead read = read_json(one.substr(begin));
  const json::object* object = read.value.if_object();
  if (read.status != JsonStatus::complete || !object || object->size() != 1 || !object->contains(f.key))
    return false;
  found.form = DerivedDialect::Form::json;
  found.name_end = marker(one.substr(name_end, begin - name_end));
  // The arguments are written the same way in both renders.
  const std::size_t in_two = two.find(one.substr(begin, read.consumed));
  return in_two != two.npos && derive_list(found, f, one, two, begin + read.consumed, in_two + read.consumed);
}

bool derive_members(DerivedDialect& found, const RenderedFixtures& f, std::string_view one,
                    std::string_view two, std::string_view two_arguments) {
  std::size_t at = 0, at_one = 0, at_two = 0;
  const auto before = between(two_arguments, at, f.name);
  const auto first = between(two_arguments, at, f.key);
  const auto key_end = between(two_arguments, at, f.value);
  auto middle = between(two_arguments, at, f.key2);
  const auto key2_end = between(two_arguments, at, f.value2);
  if (!before || !first || !key_end || !middle || !key2_end || *key_end != *key2_end) return false;
  if (!between(one, at_one, f.value) || !between(two, at_two, f.value)) return false;
  std::string_view after = one.substr(at_one);
  found.form = DerivedDialect::Form::members;
  std::string_view key_close = *key_end;
  // Quotes around the values are JSON's; other quotes would need the rules of another language.
  if (key_close.ends_with('\'')) return false;
  if (key_close.ends_with('"') && middle->starts_with('"') && after.starts_with('"')) {
    found.form = DerivedDialect::Form::json_members;
    key_close.remove_suffix(1);
    middle->remove_prefix(1);
    after.remove_prefix(1);
    ++at_one;
    ++at_two;
  }
  const ListMarkers members = split_list(*first, *middle, after);
  found.name_end = marker(members.list_open);
  found.argument_open = marker(members.open);
  found.key_end = marker(key_close);
  found.argument_end = marker(members.close.empty() ? members.separator : members.close);
  if (found.key_end.empty() || found.argument_end.empty()) return false;
  const std::size_t end = members.close.size();
  return derive_list(found, f, one, two, at_one + end, at_two + end);
}

using Calls = std::vector<std::pair<std::string_view, json::object>>;

bool reads(const DerivedDialect& dialect, std::string_view text, const Calls& wanted) {
  std::vector<ToolSchema> tools;
  for (const auto& [name, arguments] : wanted) {
    json::object properties;
    for (const auto& member : arguments) {
      properties[member.key()] = json::object{{"type", member.value().is_string() ? "string" : "integer"}};
    }
    tools.push_back(make_tool_schema(std::string(name), {{"type", "object"}, {"properties", properties}}));
  }
  ParserOptions options;
  options.derived = &dialect;
  options.tools = tools;
  options.salvage = SalvageLevel::strong;
  const Message message = parse_message(text, options);
  const auto same = [](const Call& call, const auto& want) {
    return call.name == want.first && call.arguments == want.second &&
           call.provenance.source == family_form(12);
  };
  return std::ranges::equal(message.calls, wanted, same);
}

}  // namespace

std::unique_ptr<const DerivedDialect> derive_dialect(const RenderedFixtures& f) {
  const auto part = [&](const std::string& render) { return call_part(render, f.text_message, f.text); };
  const auto one = part(f.one_argument), two_arguments = part(f.two_arguments), two = part(f.two_calls),
             number = part(f.number_argument);
  if (!one || !two_arguments || !two || !number) return nullptr;
  for (const std::string_view word : {f.name, f.key, f.value}) {
    if (!one->contains(word)) return nullptr;
  }
  std::unique_ptr<DerivedDialect> found;
  const auto try_form = [&](auto derive) {
    found = std::make_unique<DerivedDialect>();
    return derive(*found);
  };
  if (!try_form([&](DerivedDialect& d) { return derive_objects(d, f, *one, *two); }) &&
      !try_form([&](DerivedDialect& d) { return derive_json(d, f, *one, *two); }) &&
      !try_form([&](DerivedDialect& d) { return derive_members(d, f, *one, *two, *two_arguments); })) {
    return nullptr;
  }
  const std::string& opener = found->section_open.empty() ? found->open : found->section_open;
  // A word alone could stand in any text.
  if (opener.size() < 4 ||
      std::ranges::all_of(opener, [](char c) { return is_name_char(c) || is_space(c); })) {
    return nullptr;
  }
  found->openers = {opener};
  std::size_t closers = 0;
  for (const std::string* closer : {&found->close, &found->section_close}) {
    if (!closer->empty()) found->closers[closers++] = *closer;
  }
  found->row = {.source = family_form(12),
                .openers = found->openers,
                .body = Body::derived,
                .closers = std::span(found->closers).first(closers)};

  const json::object value = {{f.key, f.value}};
  const bool sound = reads(*found, *one, {{f.name, value}}) &&
                     reads(*found, *number, {{f.name, {{f.key, f.number}}}}) &&
                     reads(*found, *two_arguments, {{f.name, {{f.key, f.value}, {f.key2, f.value2}}}}) &&
                     reads(*found, *two, {{f.name, value}, {f.name2, value}});
  return sound ? std::move(found) : nullptr;
}

}  // namespace gezel::turn
