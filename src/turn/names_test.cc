#include "turn/names.h"

#include <gtest/gtest.h>

#include <random>

#include "turn/test_table.h"

namespace gezel::turn {
namespace {

std::optional<std::string> name_at(const ToolNames& names, std::optional<std::size_t> index) {
  if (!index) return std::nullopt;
  return names.names()[*index];
}

std::optional<std::string> text_or_nothing(const json::object& row, std::string_view key) {
  const auto& value = row.at(key);
  if (value.is_null()) return std::nullopt;
  return std::string(value.as_string());
}

TEST(ToolNames, EveryCaseOfTheTableHolds) {
  for_each_row("names.jsonl", [](const json::object& row) {
    std::vector<std::string> tools;
    for (const auto& tool : *array_at(row, "tools")) tools.emplace_back(tool.as_string());
    const ToolNames names(tools);
    EXPECT_EQ(name_at(names, names.resolve(string_or(row, "wanted"))), text_or_nothing(row, "tool"));
    if (row.contains("suggest")) {
      EXPECT_EQ(name_at(names, names.suggest(string_or(row, "wanted"))), text_or_nothing(row, "suggest"));
    }
  });
}

TEST(ToolNames, TheNearestNameIsSuggestedAndOfSeveralTheFirst) {
  const ToolNames names({"weather_ab", "weather_a", "weather_c"});
  EXPECT_EQ(name_at(names, names.suggest("weather")), "weather_a");
}

std::size_t whole_table(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> table(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        table[i][j] = i + j;
      } else {
        table[i][j] = std::min({table[i - 1][j] + 1, table[i][j - 1] + 1,
                                table[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0u : 1u)});
      }
    }
  }
  return table[a.size()][b.size()];
}

TEST(EditDistance, IsTheDistanceOrAboveTheLimit) {
  std::mt19937 random(1);
  const auto text = [&] {
    std::string result(random() % 8, 'a');
    for (char& c : result) c = static_cast<char>('a' + random() % 3);
    return result;
  };
  for (int round = 0; round < 20'000; ++round) {
    const std::string a = text(), b = text();
    const std::size_t limit = random() % 6, distance = whole_table(a, b);
    EXPECT_EQ(edit_distance(a, b, limit), distance <= limit ? std::optional(distance) : std::nullopt)
        << a << " " << b << " " << limit;
  }
}

TEST(Names, AListIsCutWithANumber) {
  EXPECT_EQ(list_names({"a", "b", "c"}, 2), "a, b, +1 more");
  EXPECT_EQ(list_names({"a", "b"}, 2), "a, b");
  EXPECT_EQ(list_names({}), "");
}

}  // namespace
}  // namespace gezel::turn
