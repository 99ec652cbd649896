// base/bytes.h
//
// Byte counts and how a person reads them.
#pragma once
#include <cstdint>
#include <string>

namespace gezel {

using Bytes = std::uint64_t;
inline constexpr Bytes kKiB = 1024;
inline constexpr Bytes kMiB = 1024 * kKiB;
inline constexpr Bytes kGiB = 1024 * kMiB;

// "512 B", "1.5 KiB", "93.8 MiB", "4.0 GiB": one decimal, binary units.
std::string format_bytes(Bytes bytes);

}  // namespace gezel
