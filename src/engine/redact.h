// engine/redact.h
//
// Secrets out of lines that go to a log: bearer tokens, API keys, user information in URLs.
#pragma once
#include <string>
#include <string_view>

namespace gezel::engine {

// The line with every secret replaced by "[redacted]". Length and content of everything else stay.
std::string redact(std::string_view line);

}  // namespace gezel::engine
