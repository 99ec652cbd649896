// downloads/url.h
//
// Addresses: where a request may go, and who may see a token. Pure.
#pragma once
#include <string>
#include <string_view>

#include "base/result.h"

namespace gezel::downloads {

struct Url {
  std::string text;    // normalised
  std::string scheme;  // "https"
  std::string host;    // lower case; IPv6 in brackets
  int port = 0;        // the scheme's own when none is written

  // Who answers: a token is given to exactly one origin.
  std::string origin() const;
};

// Checks that it may be asked: https, or http to a loopback host; no user name or password; no control
// characters. Error `bad_url`.
Result<Url> parse_url(std::string_view text);

// The same for an address that a transfer starts with, which may also be "file:///absolute/path".
Result<Url> parse_source(std::string_view text);
// Its path, decoded and without a query.
std::string file_path(const Url& url);

// `location` of a redirect, resolved against the address that sent it, and checked in the same way;
// never from https back to http.
Result<Url> resolve_redirect(const Url& from, std::string_view location);

// An address, or what was meant as one, as logs and errors may show it: without user name, password, query
// and fragment, where secrets stand, and at most 200 bytes of it.
std::string shown_address(std::string_view text);

bool is_loopback(std::string_view host);

// One segment or value with everything but unreserved characters percent-encoded; '/' is kept in a path.
std::string percent_encoded(std::string_view text);
std::string percent_encoded_path(std::string_view path);

}  // namespace gezel::downloads
