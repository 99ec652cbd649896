// downloads/lz4.h
//
// Reading the LZ4 frame format (lz4_Frame_format.md, version 1.6.4): what a content-addressed store packs its
// chunks with. Pure.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.h"

namespace gezel::downloads {

// What the frame holds, which must be exactly `size` bytes; never more than that is written. Checksums are
// not looked at: the digest of the whole file decides. Error `bad_chunk`.
Result<std::string> read_lz4_frame(std::string_view frame, std::size_t size);

}  // namespace gezel::downloads
