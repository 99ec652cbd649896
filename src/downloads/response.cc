#include "downloads/response.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace gezel::downloads {
namespace {

// A number that is followed by `end`, or by nothing when `end` is 0. Takes it off `text`.
std::optional<Bytes> take_number(std::string_view& text, char end) {
  Bytes out = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(stop - text.data()));
  if (end == 0) return text.empty() ? std::optional(out) : std::nullopt;
  if (!text.starts_with(end)) return std::nullopt;
  text.remove_prefix(1);
  return out;
}

Decision refused(ErrorKind kind, std::string code, std::string message) {
  Decision out;
  out.error = {kind, std::move(code), std::move(message), {}};
  return out;
}

Decision transient(std::string code, std::string message) {
  Decision out = refused(ErrorKind::unavailable, std::move(code), std::move(message));
  out.action = Action::retry;
  return out;
}

Decision partial_content(const ResponseHead& head, Bytes offset) {
  Decision out;
  // Without the header the server says nothing of where the part belongs; the status says it is the one we
  // asked for. A part that begins elsewhere would leave a hole or an overlap.
  if (head.content_range && head.content_range->first.value_or(offset) != offset) {
    out = transient("wrong_range",
                    fmt::format("the server sent the file from byte {} on instead of byte {}; starting over",
                                *head.content_range->first, offset));
    out.action = Action::retry_without_range;
    return out;
  }
  out.action = Action::append;
  if (head.content_range && head.content_range->total)
    out.total = head.content_range->total;
  else if (head.content_length)
    out.total = offset + *head.content_length;
  return out;
}

// The range starts at the end of the file, or behind it.
Decision range_not_satisfiable(const ResponseHead& head, Bytes offset) {
  Decision out;
  if (offset == 0)
    return refused(ErrorKind::unavailable, "http_416",
                   "the server answered 416 to a request without a range");
  out.action = Action::complete;
  out.truncate_to = offset;
  if (head.content_range && head.content_range->total) {
    const Bytes total = *head.content_range->total;
    if (total > offset) {
      // It refuses a range that it has.
      out =
          transient("wrong_range", fmt::format("the server refused to send the file from byte {} on, of {}; "
                                               "starting over",
                                               offset, total));
      out.action = Action::retry_without_range;
      return out;
    }
    out.total = total;
    out.truncate_to = total;
  }
  return out;
}

bool same_word(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  return std::ranges::equal(a, b, {}, lower, lower);
}

std::string_view trimmed(std::string_view text) {
  while (text.starts_with(' ') || text.starts_with('\t')) text.remove_prefix(1);
  while (text.ends_with(' ') || text.ends_with('\t')) text.remove_suffix(1);
  return text;
}

// Where the first such character outside of quotes is, or the end.
std::size_t unquoted(std::string_view text, char wanted) {
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (quoted && text[i] == '\\')
      ++i;
    else if (text[i] == '"')
      quoted = !quoted;
    else if (!quoted && text[i] == wanted)
      return i;
  }
  return text.size();
}

// `; rel="next last"; title="x"`: the value may have several words. Only the first rel counts.
bool has_relation(std::string_view parameters, std::string_view relation) {
  while (!parameters.empty()) {
    const std::string_view one = parameters.substr(0, unquoted(parameters, ';'));
    parameters.remove_prefix(std::min(parameters.size(), one.size() + 1));
    const std::size_t equals = one.find('=');
    if (equals == std::string_view::npos || !same_word(trimmed(one.substr(0, equals)), "rel")) continue;
    std::string_view value = trimmed(one.substr(equals + 1));
    if (value.size() >= 2 && value.starts_with('"') && value.ends_with('"'))
      value = value.substr(1, value.size() - 2);
    while (!value.empty()) {
      const std::string_view word = value.substr(0, value.find(' '));
      if (same_word(word, relation)) return true;
      value.remove_prefix(std::min(value.size(), word.size() + 1));
    }
    return false;
  }
  return false;
}

}  // namespace

std::optional<ContentRange> parse_content_range(std::string_view text) {
  constexpr std::string_view kUnit = "bytes ";
  if (!text.starts_with(kUnit)) return std::nullopt;
  text.remove_prefix(kUnit.size());
  ContentRange out;
  if (text.starts_with("*/")) {
    text.remove_prefix(2);
  } else {
    out.first = take_number(text, '-');
    out.last = out.first ? take_number(text, '/') : std::nullopt;
    if (!out.last || *out.last < *out.first) return std::nullopt;
  }
  if (text == "*") return out;
  out.total = take_number(text, 0);
  if (!out.total || (out.last && *out.last >= *out.total)) return std::nullopt;
  return out;
}

Decision decide(const ResponseHead& head, Bytes offset) {
  Decision out;
  switch (head.status) {
    case 200:
      out.action = Action::restart;
      out.total = head.content_length;
      return out;
    case 206:
      return partial_content(head, offset);
    case 301:
    case 302:
    case 303:
    case 307:
    case 308:
      if (head.location.empty())
        return refused(ErrorKind::unavailable, "bad_redirect",
                       fmt::format("the server redirects (status {}) without saying where to", head.status));
      out.action = Action::redirect;
      return out;
    case 401:
    case 403:
      return refused(
          ErrorKind::denied, "gated_or_denied",
          fmt::format("the host denies access (status {}): the repository may be gated, or the access "
                      "token is missing or has expired; accept its terms on the web page and set a token",
                      head.status));
    case 404:
      return refused(ErrorKind::not_found, "file_not_on_host", "the file is not on the host (status 404)");
    case 408:
      return transient("timed_out", "the server timed out (status 408)");
    case 416:
      return range_not_satisfiable(head, offset);
    case 429:
      return transient("rate_limited", "the host limits the rate of requests (status 429)");
    default:
      break;
  }
  if (head.status >= 500)
    return transient("server_error", fmt::format("the server has an error (status {})", head.status));
  return refused(ErrorKind::unavailable, "http_status",
                 fmt::format("the host answered with status {}, which is no file", head.status));
}

std::string link_target(std::string_view header, std::string_view relation) {
  while (true) {
    const std::size_t open = header.find('<');
    if (open == std::string_view::npos) return {};
    header.remove_prefix(open + 1);
    const std::size_t close = header.find('>');
    if (close == std::string_view::npos) return {};
    const std::string_view target = header.substr(0, close);
    header.remove_prefix(close + 1);
    const std::string_view parameters = header.substr(0, unquoted(header, ','));
    header.remove_prefix(parameters.size());
    if (has_relation(parameters, relation)) return std::string(target);
  }
}

}  // namespace gezel::downloads
