// turn/tolerant_json.h
//
// Reads a JSON value or a call's arguments as models write them; json_extent.h says what is forgiven.
#pragma once
#include <cstddef>
#include <string_view>

#include "base/json.h"
#include "turn/json_extent.h"

namespace gezel::turn {

struct JsonRead {
  JsonStatus status = JsonStatus::malformed;  // never `incomplete`
  // complete: the value. truncated: as much as arrived, with what there is of a string that was cut (but not
  // of a number or word, which may mean something else when cut). malformed: null.
  json::value value;
  int level = 0;
  std::size_t consumed = 0;    // as JsonExtent::end
  bool inside_string = false;  // truncated: the cut is inside a string
  bool fenced = false;         // a code fence was opened in front of the value
  std::string_view problem;    // malformed: why

  bool strict() const { return status == JsonStatus::complete && level == 0; }
};

// Reads the value at the start of `text`; text behind it is left alone. The same as JsonExtent, plus one case
// that is only decidable on the finished text: a Gemma string whose closing quote was written as */, if with
// that reading the value is complete and a closer follows.
JsonRead read_json(std::string_view text, const JsonOptions& options = {}, TextEnd end = TextEnd::stopped);

// Reads arguments that are a text of their own: an object, or a string that holds one (R10, at most twice).
// Blank text and null are {}. Text after the value counts as R1. Any other value is malformed.
JsonRead read_arguments(std::string_view text, const JsonOptions& options = {},
                        TextEnd end = TextEnd::stopped);

}  // namespace gezel::turn
