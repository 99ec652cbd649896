#include "base/public_text.h"

namespace gezel {

std::string without_folders(std::string_view text) {
  constexpr std::string_view kOpeners = " \t\n'\"`(=:,[<";
  constexpr std::string_view kEnders = " \t\n'\"`)=,;]>";
  std::string result;
  std::size_t at = 0;
  while (at < text.size()) {
    const bool token_start = at == 0 || kOpeners.find(text[at - 1]) != std::string_view::npos;
    if (text[at] == '/' && token_start) {
      std::size_t end = text.find_first_of(kEnders, at);
      if (end == std::string_view::npos) end = text.size();
      const std::string_view token = text.substr(at, end - at);
      const std::size_t last = token.find_last_of('/');
      const bool ours = token.starts_with("/v1/") || token.starts_with("/api/") || last == 0;
      result += ours ? token : token.substr(last + 1);
      at = end;
    } else {
      result += text[at++];
    }
  }
  return result;
}

}  // namespace gezel
