#include "grammar/lark_text.h"

#include <fmt/format.h>

#include <algorithm>

namespace gezel::grammar {

std::string lark_regex(std::string_view regex) {
  if (regex.empty()) return "\"\"";
  std::string text = "/";
  bool escaped = false;
  for (const char c : regex) {
    const char* special = c == '/'    ? "\\/"
                          : c == '\n' ? "\\n"
                          : c == '\r' ? "\\r"
                          : c == '\t' ? "\\t"
                                      : nullptr;
    if (escaped && special != nullptr) text.pop_back();  // "\/" and an escaped line break: once is enough
    if (special != nullptr)
      text += special;
    else
      text += c;
    escaped = c == '\\' && !escaped;
  }
  return text + "/";
}

std::string lark_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string with_leading_space(const std::string& lark, bool wanted) {
  if (!wanted) return lark;
  constexpr std::string_view kStart = "start:";
  const auto at = lark.starts_with(kStart) ? 0 : lark.find("\nstart:");
  if (at == std::string::npos) return lark;
  std::string text = lark;
  text.replace(at == 0 ? 0 : at + 1, kStart.size(),
               "start: /[ \\t\\r\\n]{1,8}/? start_behind_space\nstart_behind_space:");
  return text;
}

Result<> refuse_tokens_in_lark(std::string_view lark) {
  const auto skip_to = [&](std::size_t i, char end) {  // behind the closing character
    for (++i; i < lark.size() && lark[i] != end && lark[i] != '\n'; ++i) i += lark[i] == '\\' ? 1 : 0;
    return i;
  };
  for (std::size_t i = 0; i < lark.size(); ++i) {
    const char c = lark[i];
    if (c == '"') {
      i = skip_to(i, '"');
    } else if (c == '/' && i + 1 < lark.size() && lark[i + 1] == '/') {
      i = std::min(lark.find('\n', i), lark.size());
    } else if (c == '/') {
      i = skip_to(i, '/');
    } else if (c == '#') {
      i = std::min(lark.find('\n', i), lark.size());
    } else if (c == '<') {
      const auto line = 1 + std::ranges::count(lark.substr(0, i), '\n');
      return fail(
          ErrorKind::invalid, "grammar-invalid",
          fmt::format(
              "line {}: references to tokens are not supported: a grammar is about text; write the text",
              line));
    }
  }
  return {};
}

}  // namespace gezel::grammar
