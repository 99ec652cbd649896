// turn/coerce.h
//
// Arguments made to fit the tool's schema, from spec 50 sections 4.5 (keys), 6.2 (values of markup dialects)
// and 6.3 (coercion). Nothing is guessed: a value changes only where the schema does not allow a string and
// the string spells exactly one value of a type it does allow. What cannot be converted stays, and the tool's
// own validator speaks. Doing it twice changes nothing more.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "turn/tool_schema.h"

namespace gezel::turn {

// One thing that was changed.
struct Repair {
  enum class Kind { renamed, converted };
  Kind kind = Kind::converted;
  std::string field;  // JSON pointer (RFC 6901) into the arguments; of a renamed key: the new name
  json::value from;   // the value before; of a renamed key: the old key
  json::value to;     // the value after; of a renamed key: the new key
};

// How a markup dialect writes a value between its tags.
enum class MarkupValue {
  trimmed_line,  // Qwen and invoke XML: one line break after the opening and one before the closing tag
                 // (LF or CRLF) belong to the markup
  verbatim,      // CDATA, GLM, attributes
};

// The value that `text` stands for where `types` may stand (section 6.2): the text itself where a string is
// allowed or nothing is declared; otherwise trimmed, `null` in any case is null, the rest as in coercion.
// `position` is that of the argument, so that values inside parsed objects are coerced too.
json::value markup_value(std::string_view text, MarkupValue kind, const SchemaPosition& position);

// The key of `tool` that `key` means: itself if declared; else the one property that is equal after
// lower-casing and removing everything but letters and digits; else itself.
std::string_view match_key(const ToolSchema& tool, std::string_view key);

// Renames keys (match_key, only where the target is absent) and converts values, recursively. Returns what
// was changed, in the order of the arguments.
std::vector<Repair> coerce_arguments(json::object& arguments, const ToolSchema& tool);

// The value part alone, for one value. `field` is the pointer that repairs below it begin with.
void coerce_value(json::value& value, const SchemaPosition& position, const std::string& field,
                  std::vector<Repair>& repairs);

}  // namespace gezel::turn
