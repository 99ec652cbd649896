// downloads/xet_test_store.h
//
// For tests: packs bytes the way content-addressed storage does (xet.h).
#pragma once
#include <string>
#include <string_view>

namespace gezel::downloads::testing {

inline std::string little_endian(std::size_t value, int bytes) {
  std::string out;
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i) & 0xff);
  return out;
}

// A frame of one stored block.
inline std::string lz4_frame_of(std::string_view data) {
  std::string out = little_endian(0x184D2204, 4) + "\x60\x40" + '\x82';
  if (!data.empty()) out += little_endian(data.size() | 0x80000000, 4) + std::string(data);
  return out + little_endian(0, 4);
}

inline std::string grouped(std::string_view data) {
  std::string out;
  for (std::size_t plane = 0; plane < 4; ++plane) {
    for (std::size_t i = plane; i < data.size(); i += 4) out += data[i];
  }
  return out;
}

// `scheme`: 0 as it is, 1 LZ4, 2 grouped LZ4.
inline std::string chunk_of(std::string_view data, int scheme, char version = 0) {
  std::string packed(data);
  if (scheme == 1) packed = lz4_frame_of(data);
  if (scheme == 2) packed = lz4_frame_of(grouped(data));
  return version + little_endian(packed.size(), 3) + static_cast<char>(scheme) +
         little_endian(data.size(), 3) + packed;
}

}  // namespace gezel::downloads::testing
