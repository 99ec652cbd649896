#include "protocol/json_writer.h"

#include "base/json_text.h"
#include "base/utf8.h"

namespace gezel::protocol {
namespace {

constexpr std::string_view kHexDigits = "0123456789abcdef";

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

}  // namespace

void append_json_string(std::string& out, std::string_view text) {
  if (find_invalid_utf8(text)) {
    gezel::append_json_string(out, sanitize_utf8(text));
  } else {
    gezel::append_json_string(out, text);
  }
}

void append_json_hex(std::string& out, std::string_view bytes) {
  out.push_back('"');
  for (const char c : bytes) {
    out += kHexDigits[static_cast<unsigned char>(c) >> 4];
    out += kHexDigits[static_cast<unsigned char>(c) & 15];
  }
  out.push_back('"');
}

bool decode_hex(std::string_view hex, std::string& bytes) {
  bytes.clear();
  if (hex.size() % 2 != 0) return false;
  bytes.reserve(hex.size() / 2);
  for (std::size_t at = 0; at < hex.size(); at += 2) {
    const int high = hex_value(hex[at]), low = hex_value(hex[at + 1]);
    if (high < 0 || low < 0) return false;
    bytes.push_back(static_cast<char>(high << 4 | low));
  }
  return true;
}

}  // namespace gezel::protocol
