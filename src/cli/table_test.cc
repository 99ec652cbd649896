#include "cli/table.h"

#include <gtest/gtest.h>

#include "cli/printer.h"

namespace gezel::cli {
namespace {

TEST(Table, AlignsColumnsAndLeavesNoTrailingSpaces) {
  EXPECT_EQ(render_table({{"MODEL"}, {"SIZE", Align::right}, {"NAME"}},
                         {{"a", "1.5 MiB", "x"}, {"longer-id", "9 B", ""}}),
            "MODEL         SIZE  NAME\n"
            "a          1.5 MiB  x\n"
            "longer-id      9 B\n");
}

TEST(Table, MeasuresWideAndCombiningCharacters) {
  EXPECT_EQ(display_width("abc"), 3U);
  EXPECT_EQ(display_width("模型"), 4U);
  EXPECT_EQ(display_width("e\xcc\x81"), 1U);  // e and a combining acute accent
  EXPECT_EQ(render_table({{"A"}, {"B"}}, {{"模型", "x"}, {"ab", "y"}}), "A     B\n模型  x\nab    y\n");
}

TEST(Table, ShortRowsEndEarly) {
  EXPECT_EQ(render_table({{"A"}, {"B"}}, {{"x"}}), "A  B\nx\n");
}

TEST(Table, DropsWhatWouldMoveTheCursor) {
  EXPECT_EQ(render_table({{"A"}}, {{"a\x1b[2Jb\nc"}}), "A\na[2Jb c\n");
}

TEST(Table, CutsToAWidth) {
  EXPECT_EQ(fit_width("abcdef", 6), "abcdef");
  EXPECT_EQ(fit_width("abcdefg", 6), "abcde…");
  EXPECT_EQ(fit_width("模型模型", 6), "模型…");
  EXPECT_EQ(fit_width("abc", 0), "");
}

TEST(Table, GroupsDigits) {
  EXPECT_EQ(group_digits(0), "0");
  EXPECT_EQ(group_digits(999), "999");
  EXPECT_EQ(group_digits(1000), "1,000");
  EXPECT_EQ(group_digits(-1234567), "-1,234,567");
}

TEST(TerminalText, KeepsTextAndDropsControls) {
  EXPECT_EQ(terminal_text("a\tb\nc"), "a\tb\nc");
  EXPECT_EQ(terminal_text("\x1b]0;title\x07x\x7f"), "]0;titlex");
  EXPECT_EQ(terminal_text("\xc2\x9b"
                          "1mé模"),
            "1mé模");  // C1 control sequence introducer
}

}  // namespace
}  // namespace gezel::cli
