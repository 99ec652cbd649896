// turn/weak_scan.h
//
// Calls that look like JSON, markup or code (W1 to W4 and W6 of spec 50 section 5.4), found on the finished
// content where the message has no call of any other form (4.4). Names must be those of tools; only a JSON
// envelope that cannot be anything else is reported with a name nobody knows. One pass from left to right:
// what was read for a form that failed is not read again.
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "turn/calls.h"
#include "turn/json_extent.h"
#include "turn/names.h"
#include "turn/tool_schema.h"

namespace gezel::turn {

struct WeakCall {
  Source source;
  std::string name;  // as written
  std::string id;
  json::object arguments;
  int repair = 0;
  TextSpan span;  // of the content
};

struct WeakScan {
  std::vector<WeakCall> calls;
  std::vector<TextSpan> removed;    // what the calls leave behind goes with them: fences, bullets, backticks
  bool envelope_truncated = false;  // the content ends inside what looks like an envelope
};

WeakScan scan_weak(std::string_view content, std::span<const ToolSchema> tools, const ToolNames& names,
                   TextEnd end);

// A call object with an arguments key, or an array of them, that can only be meant as calls.
bool is_call_envelope(const json::value& value, const ToolNames& names);

// The content without the spans, which are in order; the white space around them as in section 4.3.
std::string without_spans(std::string_view content, std::span<const TextSpan> spans, bool drop_leading);

}  // namespace gezel::turn
