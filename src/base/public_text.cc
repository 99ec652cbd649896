// Where a path ends in a sentence cannot be told: it may have blanks and commas in it. So everything is taken
// for folders up to the last '/' before what ends a path in our messages: the closing quote of a quoted one;
// ": ", "; " or a line's end; the next word that begins with a '/'. At worst a few words of a sentence go
// with the folders.
#include "base/public_text.h"

namespace gezel {
namespace {

constexpr std::string_view kOpeners = " \t\n'\"`(=:,[<";
constexpr std::string_view kEnders = " \t\n'\"`)=,;]>";
constexpr std::string_view kQuotes = "'\"`";

// Where the text that may belong to the path at `start` ends.
std::size_t stop_of(std::string_view text, std::size_t start) {
  if (start > 0 && kQuotes.find(text[start - 1]) != std::string_view::npos) {
    const std::size_t close = text.find(text[start - 1], start);
    if (close != std::string_view::npos) return close;
  }
  for (std::size_t i = start + 1; i < text.size(); ++i) {
    const char c = text[i], next = i + 1 < text.size() ? text[i + 1] : '\n';
    if (c == '\n') return i;
    if ((c == ':' || c == ';') && (next == ' ' || next == '\n')) return i;
    if (next == '/' && kOpeners.find(c) != std::string_view::npos) return i;
  }
  return text.size();
}

// Routes of ours are no folders, nor is a word of one segment.
bool is_ours(std::string_view word, std::string_view whole) {
  return word.starts_with("/v1/") || word.starts_with("/api/") || word == "/health" ||
         whole.find_last_of('/') == 0;
}

}  // namespace

std::string without_folders(std::string_view text) {
  std::string result;
  std::size_t at = 0;
  while (at < text.size()) {
    const bool token_start = at == 0 || kOpeners.find(text[at - 1]) != std::string_view::npos;
    if (text[at] != '/' || !token_start) {
      result += text[at++];
      continue;
    }
    const std::string_view word = text.substr(at, text.find_first_of(kEnders, at) - at);
    const std::string_view whole = text.substr(at, stop_of(text, at) - at);
    if (is_ours(word, whole)) {
      result += word;
      at += word.size();
    } else {
      at += whole.find_last_of('/') + 1;
    }
  }
  return result;
}

}  // namespace gezel
