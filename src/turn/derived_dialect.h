// turn/derived_dialect.h
//
// A dialect that no row of the catalogue describes (row F12 of spec 50 section 5.2): its markers are found by
// rendering calls that we know through the model's own template and looking at what surrounds them.
//
//   section = section_open call (separator call)* section_close
//   call    = open NAME name_end ARGUMENTS close, or, if the template writes call objects, open OBJECT close
//   ARGUMENTS = one JSON object, or (argument_open KEY key_end VALUE argument_end)*
//
// Markers are without the white space around them, which is free; every one but the opener may be empty.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "turn/dialects.h"

namespace gezel::turn {

struct DerivedDialect {
  enum class Form : std::uint8_t {
    object,        // call objects, or an array of them
    json,          // NAME and one JSON object
    members,       // NAME and members whose values are text
    json_members,  // NAME and members whose values are JSON
  };
  Form form = Form::object;
  std::string section_open, section_close;
  std::string open, close;  // of one call
  std::string separator;
  std::string name_end;
  std::string argument_open, key_end, argument_end;

  // The row for the splitter: its opener is section_open if there is one, else open. It points into this.
  std::array<std::string_view, 1> openers;
  std::array<std::string_view, 2> closers;
  Dialect row;

  DerivedDialect() = default;
  DerivedDialect(const DerivedDialect&) = delete;
  DerivedDialect& operator=(const DerivedDialect&) = delete;
};

// The same conversation rendered with different last messages of the assistant. The words that stand in them
// must be ones that no template holds; values are strings but for `number`.
struct RenderedFixtures {
  std::string text_message;     // says `text`
  std::string one_argument;     // calls `name` with {key: value}
  std::string number_argument;  // calls `name` with {key: number}
  std::string two_arguments;    // calls `name` with {key: value, key2: value2}
  std::string two_calls;        // calls `name` with {key: value}, then `name2` with {key: value}
  std::string_view text, name, name2, key, value, key2, value2;
  std::int64_t number = 0;
};

// Null if the renders do not show one way of writing calls, or an opener that no prose would hold. What is
// found reads every one of the renders as the call that it is.
std::unique_ptr<const DerivedDialect> derive_dialect(const RenderedFixtures& fixtures);

}  // namespace gezel::turn
