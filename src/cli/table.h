// cli/table.h
//
// Rows of text in aligned columns, measured as a terminal shows them.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace gezel::cli {

// Columns a terminal needs for UTF-8 text: 0 for combining marks, 2 for wide East Asian characters and emoji,
// else 1.
std::size_t display_width(std::string_view text);
// The longest prefix that fits `width` columns, ending in "…" when something was cut.
std::string fit_width(std::string_view text, std::size_t width);

enum class Align { left, right };

struct Column {
  std::string title;
  Align align = Align::left;
};

// The title line and one line per row, two spaces between columns, no spaces at the ends of lines. Rows may
// be shorter than the columns; control characters are dropped.
std::string render_table(const std::vector<Column>& columns,
                         const std::vector<std::vector<std::string>>& rows);

// "1,234,567"
std::string group_digits(long long number);

}  // namespace gezel::cli
