// models/zip_format.h
//
// Numbers of the ZIP format (APPNOTE 6.3.10), for its reader and its writer: marks, sizes of fixed parts,
// flags, and integers, which are little-endian.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/bytes.h"

namespace gezel::models::zip {

inline constexpr std::uint32_t kLocal = 0x04034b50, kListed = 0x02014b50, kDescriptor = 0x08074b50,
                               kEnd = 0x06054b50, kEnd64 = 0x06064b50, kLocator64 = 0x07064b50;
inline constexpr std::size_t kLocalSize = 30, kListedSize = 46, kEndSize = 22, kEnd64Size = 56,
                             kLocator64Size = 20;
inline constexpr unsigned kStored = 0, kDeflated = 8;
inline constexpr unsigned kExtra64 = 1;            // the extra field with 64-bit numbers
inline constexpr unsigned kMadeByUnix = 3;         // then the upper half of the attributes is a mode
inline constexpr std::uint32_t kDosFolder = 0x10;  // in the lower half
inline constexpr Bytes kMax16 = 0xFFFF, kMax32 = 0xFFFFFFFF;  // full: the number stands elsewhere

inline constexpr unsigned kStreamedFlag = 1U << 3, kUtf8Flag = 1U << 11;
inline constexpr unsigned kEncryptedFlags = 1U | 1U << 6 | 1U << 13;
// Bits 1 and 2 say how hard a deflater tried.
inline constexpr unsigned kKnownFlags = 1U << 1 | 1U << 2 | kStreamedFlag | kUtf8Flag;

inline std::uint64_t number_at(std::string_view text, std::size_t at, std::size_t bytes) {
  std::uint64_t out = 0;
  for (std::size_t i = bytes; i-- > 0;) out = out << 8 | static_cast<unsigned char>(text[at + i]);
  return out;
}
inline unsigned u16_at(std::string_view text, std::size_t at) {
  return static_cast<unsigned>(number_at(text, at, 2));
}
inline std::uint32_t u32_at(std::string_view text, std::size_t at) {
  return static_cast<std::uint32_t>(number_at(text, at, 4));
}
inline std::uint64_t u64_at(std::string_view text, std::size_t at) {
  return number_at(text, at, 8);
}

inline void put(std::string& out, std::uint64_t number, int bytes) {
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(number >> (8 * i) & 0xFF);
}

}  // namespace gezel::models::zip
