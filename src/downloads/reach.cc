#include "downloads/reach.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>

namespace gezel::downloads {
namespace {

struct Range4 {
  std::uint32_t network;
  int bits;
};

// The registry of special-purpose IPv4 addresses.
constexpr std::array kNotPublic4{
    Range4{0x00000000, 8},   // this network
    Range4{0x0A000000, 8},   // private
    Range4{0x64400000, 10},  // shared by carriers
    Range4{0x7F000000, 8},   // this machine
    Range4{0xA9FE0000, 16},  // link-local, among them the metadata services of clouds
    Range4{0xAC100000, 12},  // private
    Range4{0xC0000000, 24},  // protocol assignments
    Range4{0xC0000200, 24},  // documentation
    Range4{0xC0A80000, 16},  // private
    Range4{0xC6120000, 15},  // benchmarks
    Range4{0xC6336400, 24},  // documentation
    Range4{0xCB007100, 24},  // documentation
    Range4{0xE0000000, 4},   // multicast
    Range4{0xF0000000, 4},   // reserved, broadcast
};

bool is_public4(std::uint32_t address) {
  return std::ranges::none_of(
      kNotPublic4, [&](const Range4& range) { return (address ^ range.network) >> (32 - range.bits) == 0; });
}

std::uint32_t number_of(std::span<const unsigned char> bytes) {
  return std::uint32_t{bytes[0]} << 24 | std::uint32_t{bytes[1]} << 16 | std::uint32_t{bytes[2]} << 8 |
         bytes[3];
}

bool starts_with(std::span<const unsigned char> bytes, std::span<const unsigned char> prefix) {
  return std::equal(prefix.begin(), prefix.end(), bytes.begin());
}

bool is_public6(std::span<const unsigned char> bytes) {
  constexpr std::array<unsigned char, 12> kMapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF};
  constexpr std::array<unsigned char, 12> kTranslated{0, 0x64, 0xFF, 0x9B};
  if (starts_with(bytes, kMapped) || starts_with(bytes, kTranslated))
    return is_public4(number_of(bytes.subspan(12)));
  constexpr std::array<unsigned char, 2> k6to4{0x20, 0x02};
  if (starts_with(bytes, k6to4)) return is_public4(number_of(bytes.subspan(2)));
  constexpr std::array<unsigned char, 4> kDocumentation{0x20, 0x01, 0x0D, 0xB8};
  if (starts_with(bytes, kDocumentation)) return false;
  // Only 2000::/3 is given out; loopback, private, link-local and multicast addresses all lie outside.
  return bytes[0] >> 5 == 1;
}

}  // namespace

bool is_public_address(std::span<const unsigned char> bytes) {
  if (bytes.size() == 4) return is_public4(number_of(bytes));
  return bytes.size() == 16 && is_public6(bytes);
}

bool may_be_public(std::string_view host) {
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  const std::string text(host.substr(0, host.find('%')));  // a zone names an interface of this machine
  std::array<unsigned char, 16> bytes{};
  if (::inet_pton(AF_INET6, text.c_str(), bytes.data()) == 1) return is_public_address(bytes);
  if (::inet_pton(AF_INET, text.c_str(), bytes.data()) == 1)
    return is_public_address(std::span(bytes).first(4));
  return true;
}

}  // namespace gezel::downloads
