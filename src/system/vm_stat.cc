#include "system/vm_stat.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "system/text_file.h"

namespace gezel::system {
namespace {

constexpr auto kLabels = std::to_array<std::string_view>(
    {"Pages free", "Pages inactive", "Pages speculative", "Pages purgeable", "File-backed pages"});
constexpr std::uint64_t kMaxPages = std::uint64_t{1} << 40, kMaxPageSize = std::uint64_t{1} << 20;

std::uint64_t page_size(std::string_view text) {
  constexpr std::string_view kBefore = "page size of ", kAfter = " bytes";
  const auto at = text.find(kBefore);
  if (at == text.npos) return 0;
  const char* begin = text.data() + at + kBefore.size();
  std::uint64_t size = 0;
  const auto [end, error] = std::from_chars(begin, text.data() + text.size(), size);
  const std::string_view rest(end, static_cast<std::size_t>(text.data() + text.size() - end));
  return error == std::errc{} && rest.starts_with(kAfter) && size <= kMaxPageSize ? size : 0;
}

}  // namespace

std::optional<Bytes> parse_vm_stat(std::string_view text) {
  std::uint64_t pages = 0;
  for (std::string_view line : lines(text)) {
    const auto colon = line.find(':');
    if (colon == line.npos || std::ranges::find(kLabels, trim(line.substr(0, colon))) == kLabels.end())
      continue;
    std::string_view number = trim(line.substr(colon + 1));
    if (number.ends_with('.')) number.remove_suffix(1);
    pages += std::min(parse_unsigned(number).value_or(0), kMaxPages);
  }
  const Bytes bytes = pages * page_size(text);
  return bytes > 0 ? std::optional(bytes) : std::nullopt;
}

}  // namespace gezel::system
