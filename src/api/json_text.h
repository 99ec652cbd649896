// api/json_text.h
//
// Numbers of a reply written straight into a string (base/json_text.h writes its texts): frames of a stream
// are built thousands of times a second from a constant head and one escaped text, so they do not go through
// a document.
#pragma once
#include <string>

#include "base/json_text.h"

namespace gezel::api {

// Appends a finite number with at most three decimals; what is not finite becomes 0.
void append_json_number(std::string& out, double number);

}  // namespace gezel::api
