// grammar/spaced_json.h
//
// JSON text as constraints write it: ", " and ": " between values and nothing else.
#pragma once
#include <string>

#include "base/json.h"

namespace gezel::grammar {

// Numbers keep being what they are: 2.5 is 2.5.
std::string spaced_json(const json::value& value);

}  // namespace gezel::grammar
