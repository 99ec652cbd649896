// turn/json_number.h
//
// Numbers of JSON text.
#pragma once
#include <string_view>

#include "base/json.h"

namespace gezel::turn {

// Whether `text` is exactly a number of RFC 8259.
bool is_json_number(std::string_view text);

// Its value: a 64-bit integer if it is written as one and fits, else the nearest double (infinite where no
// double is large enough). `text` must be a number of RFC 8259; leading zeros are accepted too.
json::value parse_json_number(std::string_view text);

}  // namespace gezel::turn
