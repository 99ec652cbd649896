// catalog/lint.h
//
// What must not be wrong in catalog data that is shipped (spec 60 section 2.11). Readers are kinder: an item
// with such a fault still works. Pure; a test runs it over catalog/*.json and allows only the gaps listed in
// testdata/catalog/lint-gaps.txt.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "catalog/item.h"

namespace gezel::catalog {

struct Finding {
  std::string id, rule;  // rule: one word, stable
  std::string message;
};
std::vector<Finding> lint(std::span<const ItemPtr> items);

}  // namespace gezel::catalog
