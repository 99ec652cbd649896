// turn/test_table.h
//
// For tests only: tables of cases in testdata/turn, one JSON object a line.
#pragma once
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <string>

#include "base/json.h"

namespace gezel::turn {

// Calls `check` with every row of `name`, under a trace that names the row.
inline void for_each_row(const std::string& name, const std::function<void(const json::object&)>& check) {
  std::ifstream table(GEZEL_TESTDATA "/turn/" + name);
  int rows = 0;
  for (std::string line; std::getline(table, line); ++rows) {
    const auto row = parse_json(line);
    ASSERT_TRUE(row) << line;
    SCOPED_TRACE(string_or(row->as_object(), "id") + ": " + string_or(row->as_object(), "n"));
    check(row->as_object());
  }
  ASSERT_GT(rows, 0) << name;
}

}  // namespace gezel::turn
