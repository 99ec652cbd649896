// http/wire.h
//
// Small pieces of HTTP/1.1 text: heads, dates, percent encoding, queries. Pure.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "api/exchange.h"
#include "base/clock.h"

namespace gezel::http {

std::string_view reason_phrase(int status);

// Status line and headers with the empty line that ends them. A header whose value holds a control character
// is left out: it could only split the response.
std::string response_head(int status, const api::Headers& headers);

// "Sun, 06 Nov 1994 08:49:37 GMT" (RFC 9110 section 5.6.7), whatever the locale.
std::string http_date(WallTime time);

// Nothing when a '%' is not followed by two hexadecimal digits.
std::optional<std::string> percent_decode(std::string_view text);

struct Target {
  std::string_view path;   // as sent
  std::string_view query;  // without '?'
};
Target split_target(std::string_view target);
// The decoded value of `key` in "a=b&c=d"; '+' is a space.
std::optional<std::string> query_value(std::string_view query, std::string_view key);

std::string lower_case(std::string_view text);  // ASCII only

}  // namespace gezel::http
