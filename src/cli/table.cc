#include "cli/table.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "cli/printer.h"

namespace gezel::cli {
namespace {

struct Range {
  std::uint32_t first, last;
};

// Coarse on purpose: whole blocks of the Unicode character database (EastAsianWidth W and F, general category
// Mn).
constexpr std::array kWide{Range{0x1100, 0x115f},   Range{0x2e80, 0x303e},  Range{0x3041, 0x33ff},
                           Range{0x3400, 0x4dbf},   Range{0x4e00, 0x9fff},  Range{0xa000, 0xa4cf},
                           Range{0xac00, 0xd7a3},   Range{0xf900, 0xfaff},  Range{0xfe30, 0xfe6f},
                           Range{0xff00, 0xff60},   Range{0xffe0, 0xffe6},  Range{0x1f300, 0x1f64f},
                           Range{0x1f900, 0x1f9ff}, Range{0x20000, 0x3fffd}};
constexpr std::array kZero{Range{0x0300, 0x036f}, Range{0x200b, 0x200f}, Range{0x20d0, 0x20ff},
                           Range{0xfe00, 0xfe0f}, Range{0xfe20, 0xfe2f}};

template <std::size_t N>
bool within(const std::array<Range, N>& table, std::uint32_t code) {
  return std::any_of(table.begin(), table.end(),
                     [code](Range range) { return code >= range.first && code <= range.last; });
}

// Bytes and code point of the character at `at`; ill-formed bytes count as one character each.
std::pair<std::size_t, std::uint32_t> next_character(std::string_view text, std::size_t at) {
  const auto lead = static_cast<unsigned char>(text[at]);
  const std::size_t size = lead < 0x80 ? 1 : lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc2 ? 2 : 1;
  if (size == 1 || at + size > text.size()) return {1, lead};
  std::uint32_t code = lead & (0x7fU >> size);
  for (std::size_t i = 1; i < size; ++i)
    code = code << 6 | (static_cast<unsigned char>(text[at + i]) & 0x3fU);
  return {size, code};
}

std::size_t character_width(std::uint32_t code) {
  if (within(kZero, code)) return 0;
  return within(kWide, code) ? 2 : 1;
}

}  // namespace

std::size_t display_width(std::string_view text) {
  std::size_t width = 0;
  for (std::size_t at = 0; at < text.size();) {
    const auto [size, code] = next_character(text, at);
    width += character_width(code);
    at += size;
  }
  return width;
}

std::string fit_width(std::string_view text, std::size_t width) {
  if (display_width(text) <= width) return std::string(text);
  if (width == 0) return {};
  std::size_t used = 0, at = 0;
  while (at < text.size()) {
    const auto [size, code] = next_character(text, at);
    if (used + character_width(code) > width - 1) break;
    used += character_width(code);
    at += size;
  }
  return std::string(text.substr(0, at)) + "…";
}

std::string render_table(const std::vector<Column>& columns,
                         const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::vector<std::string>> lines(1);
  for (const Column& column : columns) lines[0].push_back(column.title);
  for (const auto& row : rows) {
    auto& line = lines.emplace_back();
    for (std::size_t i = 0; i < columns.size(); ++i) {
      std::string cell = i < row.size() ? terminal_text(row[i]) : std::string();
      std::replace_if(cell.begin(), cell.end(), [](char c) { return c == '\n' || c == '\t'; }, ' ');
      line.push_back(std::move(cell));
    }
  }
  std::vector<std::size_t> widths(columns.size());
  for (const auto& line : lines) {
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], display_width(line[i]));
  }
  std::string out;
  for (const auto& line : lines) {
    std::string text;
    for (std::size_t i = 0; i < line.size(); ++i) {
      const std::string padding(widths[i] - display_width(line[i]), ' ');
      if (i > 0) text += "  ";
      text += columns[i].align == Align::right ? padding + line[i] : line[i] + padding;
    }
    text.erase(text.find_last_not_of(' ') + 1);
    out += text + '\n';
  }
  return out;
}

std::string group_digits(long long number) {
  std::string digits = std::to_string(number);
  const std::size_t first = digits.starts_with('-') ? 1 : 0;
  for (std::size_t at = digits.size(); at > first + 3;) {
    at -= 3;
    digits.insert(at, ",");
  }
  return digits;
}

}  // namespace gezel::cli
