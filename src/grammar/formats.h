// grammar/formats.h
//
// The formats of strings that are enforced. Each accepts at least what the constraint library generates for
// it, so that a check behind a constraint never finds fault with a format alone.
#pragma once
#include <optional>
#include <string_view>

namespace gezel::grammar {

// Nothing: the format is not one of those enforced.
std::optional<bool> has_format(std::string_view format, std::string_view text);

// A pattern for a format that the constraint library does not know; nothing for those that it knows and for
// unknown ones. It lets through nothing that is wrong, but not everything that is right: no IP literals, and
// only plain names in templates.
std::optional<std::string_view> format_pattern(std::string_view format);

// The formats that has_format() knows.
bool is_enforced_format(std::string_view format);

}  // namespace gezel::grammar
