// grammar/schema_disjoint.h
//
// Whether two schemas of the normal form can hold for the same value. `oneOf` means `anyOf` when no two of
// its options can.
#pragma once
#include "base/json.h"

namespace gezel::grammar {

// True only when it is certain that no value satisfies both.
bool surely_disjoint(const json::value& a, const json::value& b, const json::object& definitions);

}  // namespace gezel::grammar
