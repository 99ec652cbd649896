// Where the behaviour cases of spec 50 section 17.2 are tested: testdata/turn/acceptance.jsonl lists each
// with the files that hold it, and this test looks that they do. The parse cases of section 17.1 are
// testdata/turn/parse.jsonl.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "turn/test_table.h"

namespace gezel::turn {
namespace {

std::string text_of(const std::string& file) {
  std::ifstream in(std::string(GEZEL_TESTDATA "/../") + file);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

TEST(Acceptance, EveryListedCaseIsWhereTheTableSays) {
  for_each_row("acceptance.jsonl", [](const json::object& row) {
    const auto* files = array_at(row, "where");
    ASSERT_NE(files, nullptr);
    ASSERT_FALSE(files->empty());
    for (const auto& file : *files)
      EXPECT_THAT(text_of(std::string(file.as_string())), testing::HasSubstr(string_or(row, "id")))
          << file.as_string();
  });
}

}  // namespace
}  // namespace gezel::turn
