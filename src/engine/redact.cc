#include "engine/redact.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace gezel::engine {
namespace {

constexpr std::string_view kMask = "[redacted]";
// What stands before a secret. The name forms are followed by '=', ':' or a blank, and perhaps a quote.
constexpr std::array<std::string_view, 8> kNames = {"bearer", "authorization", "api-key", "api_key",
                                                    "apikey", "password",      "secret",  "token"};
// How well-known secrets begin, wherever they stand.
constexpr std::array<std::string_view, 3> kPrefixes = {"hf_", "sk-", "gz-"};
constexpr std::size_t kShortestSecret = 12;

bool word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-';
}
bool secret_char(char c) {
  return word(c) || c == '.' || c == '+' || c == '/' || c == '=' || c == '~';
}

bool starts_with_folded(std::string_view text, std::string_view lower) {
  return text.size() >= lower.size() &&
         std::equal(lower.begin(), lower.end(), text.begin(),
                    [](char a, char b) { return a == std::tolower(static_cast<unsigned char>(b)); });
}

std::size_t secret_length(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::find_if_not(text, secret_char) - text.begin());
}

// Length of a name and its separators at the beginning of `text`, when a secret follows; else 0.
std::size_t named_secret(std::string_view text) {
  for (const auto name : kNames) {
    if (!starts_with_folded(text, name)) continue;
    std::size_t at = name.size();
    bool separated = false;
    while (at < text.size() &&
           (text[at] == '=' || text[at] == ':' || text[at] == '"' || text[at] == '\'' || text[at] == ' ')) {
      separated |= text[at] == '=' || text[at] == ':' || name == "bearer";
      ++at;
    }
    // "authorization: Bearer x": the secret is behind the second word.
    if (starts_with_folded(text.substr(at), "bearer ")) return at + 7;
    if (separated && secret_length(text.substr(at)) >= (name == "token" ? kShortestSecret : 6)) return at;
  }
  return 0;
}

}  // namespace

std::string redact(std::string_view line) {
  std::string out;
  out.reserve(line.size());
  std::size_t at = 0;
  while (at < line.size()) {
    const auto rest = line.substr(at);
    const bool at_word_start = at == 0 || !std::isalnum(static_cast<unsigned char>(line[at - 1]));
    if (at_word_start) {
      if (const auto name = named_secret(rest); name > 0) {
        out += rest.substr(0, name);
        out += kMask;
        at += name + secret_length(rest.substr(name));
        continue;
      }
      const auto length = secret_length(rest);
      if (length >= kShortestSecret &&
          std::ranges::any_of(kPrefixes, [&](std::string_view p) { return rest.starts_with(p); })) {
        out += kMask;
        at += length;
        continue;
      }
    }
    if (rest.starts_with("://")) {
      // User information ends at the '@' before the path begins.
      const auto authority = rest.substr(3, rest.substr(3).find_first_of("/ \t\"'?#"));
      if (const auto user = authority.rfind('@'); user != std::string_view::npos) {
        out += "://";
        out += kMask;
        at += 3 + user;
        continue;
      }
    }
    out += line[at++];
  }
  return out;
}

}  // namespace gezel::engine
