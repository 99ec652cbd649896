#include "grammar/formats.h"

#include <algorithm>
#include <map>
#include <string>

#include "grammar/pattern.h"

namespace gezel::grammar {

namespace {

// Seconds may be 60, a leap second; days are checked against the longest month they may be in, not against
// the calendar.
constexpr std::string_view kDate =
    R"(\d{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)|02-(?:0[1-9]|[12]\d)))";
constexpr std::string_view kTime =
    R"((?:[01]\d|2[0-3]):[0-5]\d:(?:[0-5]\d|60)(?:\.\d+)?(?:[zZ]|[+-](?:[01]\d|2[0-3]):[0-5]\d))";
constexpr std::string_view kOctet = R"((?:\d|[1-9]\d|1\d\d|2[0-4]\d|25[0-5]))";
constexpr std::string_view kLabel = R"([A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)";

std::string whole(std::string text) {
  return "^(?:" + std::move(text) + ")$";
}

std::string ipv4() {
  return std::string(kOctet) + "(?:\\." + std::string(kOctet) + "){3}";
}

// RFC 4291: eight groups, or fewer around one "::".
std::string ipv6() {
  const std::string group = "[0-9A-Fa-f]{1,4}";
  const std::string last = "(?:" + group + ":" + group + "|" + ipv4() + ")";
  std::string all = "(?:" + group + ":){6}" + last;
  for (int before = 0; before <= 7; ++before) {
    const std::string head =
        before == 0 ? "" : "(?:" + group + ":){0," + std::to_string(before - 1) + "}" + group;
    const int after = 7 - before;  // groups that may follow
    all += "|" + head + "::";
    if (after >= 1) all += "(?:(?:" + group + ":){0," + std::to_string(after - 1) + "}" + group + ")?";
    if (after >= 2) all += "|" + head + "::(?:" + group + ":){0," + std::to_string(after - 2) + "}" + ipv4();
  }
  return all;
}

std::string duration() {
  const std::string time = R"(T(?:\d+H(?:\d+M(?:\d+S)?)?|\d+M(?:\d+S)?|\d+S))";
  const std::string date = R"((?:\d+Y(?:\d+M(?:\d+D)?)?|\d+M(?:\d+D)?|\d+D))";
  return "P(?:" + date + "(?:" + time + ")?|" + time + R"(|\d+W))";
}

std::string email() {
  const std::string atom = R"([A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)";
  return atom + "(?:\\." + atom + ")*@(?:" + std::string(kLabel) + "(?:\\." + std::string(kLabel) +
         R"()*|\[.*\]))";
}

// RFC 3986, with any characters that a URI may hold behind the scheme and any text between brackets.
std::string uri() {
  return R"([A-Za-z][A-Za-z0-9+.-]*:(?:[A-Za-z0-9._~!$&'()*+,;=:@/?#\[\]-]|%[0-9A-Fa-f]{2})*)";
}

const std::map<std::string_view, PatternMatcher>& formats() {
  static const auto all = [] {
    const std::string hex = "[0-9A-Fa-f]";
    std::map<std::string_view, PatternMatcher> made;
    const auto add = [&](std::string_view name, std::string text) {
      made.emplace(name, *PatternMatcher::create(*parse_pattern(whole(std::move(text)))));
    };
    add("date", std::string(kDate));
    add("time", std::string(kTime));
    add("date-time", std::string(kDate) + "[tT]" + std::string(kTime));
    add("duration", duration());
    add("email", email());
    add("hostname", std::string(kLabel) + "(?:\\." + std::string(kLabel) + ")*");
    add("ipv4", ipv4());
    add("ipv6", ipv6());
    add("uuid", hex + "{8}-" + hex + "{4}-" + hex + "{4}-" + hex + "{4}-" + hex + "{12}");
    add("uri", uri());
    return made;
  }();
  return all;
}

}  // namespace

std::optional<std::string_view> format_pattern(std::string_view format) {
  // RFC 3986, RFC 6901, the draft of relative pointers, RFC 6570 level 1.
  static constexpr std::pair<std::string_view, std::string_view> kPatterns[] = {
      {"uri-reference",
       R"(^(?:[A-Za-z][A-Za-z0-9+.-]*:(?:[A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{2})*|)"
       R"((?:[A-Za-z0-9._~!$&'()*+,;=@-]|%[0-9A-Fa-f]{2})*(?:[/?](?:[A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{2})*)?))"
       R"((?:#(?:[A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{2})*)?$)"},
      {"uri-template", R"(^(?:[A-Za-z0-9._~!$&()*+,;=:@/?#-]|%[0-9a-f]{2}|\{[a-z0-9_]+\})*$)"},
      {"json-pointer", R"(^(?:/(?:[^/~]|~[01])*)*$)"},
      {"relative-json-pointer", R"(^(?:0|[1-9][0-9]*)(?:#|(?:/(?:[^/~]|~[01])*)*)$)"},
  };
  const auto* found =
      std::ranges::find(kPatterns, format, &std::pair<std::string_view, std::string_view>::first);
  return found == std::end(kPatterns) ? std::nullopt : std::optional(found->second);
}

bool is_enforced_format(std::string_view format) {
  return formats().contains(format);
}

std::optional<bool> has_format(std::string_view format, std::string_view text) {
  const auto found = formats().find(format);
  if (found == formats().end()) return std::nullopt;
  return found->second.found_in(text).value_or(true);
}

}  // namespace gezel::grammar
