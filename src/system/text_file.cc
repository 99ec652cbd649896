#include "system/text_file.h"

#include <algorithm>
#include <charconv>
#include <fstream>

namespace gezel::system {
namespace {

template <class T>
std::optional<T> parse(std::string_view text) {
  text = trim(text);
  T number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

bool blank(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

}  // namespace

std::optional<std::string> read_text(const std::filesystem::path& path, std::size_t limit) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return std::nullopt;
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  // Files of /proc have no size to go by.
  constexpr std::size_t kPiece = 16 * kKiB;
  std::string text;
  while (text.size() < limit && file) {
    const std::size_t before = text.size(), piece = std::min(kPiece, limit - before);
    text.resize(before + piece);
    file.read(text.data() + before, static_cast<std::streamsize>(piece));
    text.resize(before + static_cast<std::size_t>(file.gcount()));
  }
  if (file.bad()) return std::nullopt;
  return text;
}

std::filesystem::path under(const std::filesystem::path& root, const std::filesystem::path& path) {
  return root / path.relative_path();
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const auto at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == text.npos) return parts;
    text.remove_prefix(at + 1);
  }
}

std::vector<std::string_view> lines(std::string_view text) {
  auto parts = split(text, '\n');
  if (parts.back().empty()) parts.pop_back();
  return parts;
}

std::vector<std::string_view> words(std::string_view text) {
  std::vector<std::string_view> parts;
  for (text = trim(text); !text.empty(); text = trim(text)) {
    std::size_t length = 0;
    while (length < text.size() && !blank(text[length])) ++length;
    parts.push_back(text.substr(0, length));
    text.remove_prefix(length);
  }
  return parts;
}

std::optional<std::int64_t> parse_integer(std::string_view text) {
  return parse<std::int64_t>(text);
}
std::optional<std::uint64_t> parse_unsigned(std::string_view text) {
  return parse<std::uint64_t>(text);
}

std::optional<std::uint64_t> number_after(std::string_view text, std::string_view key) {
  for (std::string_view line : lines(text)) {
    const auto parts = words(line);
    if (parts.size() < 2) continue;
    std::string_view name = parts[0];
    if (name.ends_with(':')) name.remove_suffix(1);
    if (name == key) return parse_unsigned(parts[1]);
  }
  return std::nullopt;
}

}  // namespace gezel::system
