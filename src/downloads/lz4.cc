// A frame is a header, blocks that are compressed or stored, and an end mark. All blocks are written to one
// text, so that a match may reach back into the blocks before its own, as frames of linked blocks do.
#include "downloads/lz4.h"

#include <cstdint>

namespace gezel::downloads {
namespace {

constexpr std::uint32_t kMagic = 0x184D2204;
constexpr std::uint32_t kStored = 0x80000000;  // set in a block's size
constexpr unsigned kVersionMask = 0xC0, kVersion = 0x40, kBlockChecksum = 0x10, kContentSize = 0x08,
                   kContentChecksum = 0x04, kReserved = 0x02, kDictionary = 0x01;
constexpr std::size_t kLongLength = 15, kLeastMatch = 4;

std::unexpected<Error> bad(std::string_view why) {
  return fail(ErrorKind::corrupt, "bad_chunk", "a part of the file cannot be unpacked: " + std::string(why));
}

class Reader {
 public:
  explicit Reader(std::string_view data) : data_(data) {}
  std::size_t left() const { return data_.size(); }
  // The next `count` bytes; nothing when there are fewer.
  bool take(std::size_t count, std::string_view& out) {
    if (count > data_.size()) return false;
    out = data_.substr(0, count);
    data_.remove_prefix(count);
    return true;
  }
  // A little-endian number.
  bool take_number(std::size_t bytes, std::uint32_t& out) {
    std::string_view raw;
    if (!take(bytes, raw)) return false;
    out = 0;
    for (std::size_t i = 0; i < bytes; ++i)
      out |= static_cast<std::uint32_t>(static_cast<unsigned char>(raw[i])) << (8 * i);
    return true;
  }

 private:
  std::string_view data_;
};

// Lengths of 15 and more go on in bytes of 255 and a last smaller one.
bool extend(Reader& in, std::size_t limit, std::size_t& length) {
  if (length < kLongLength) return true;
  std::uint32_t more = 255;
  while (more == 255) {
    if (!in.take_number(1, more)) return false;
    length += more;
    if (length > limit) return false;
  }
  return true;
}

bool read_block(std::string_view block, std::size_t size, std::string& out) {
  Reader in(block);
  while (in.left() > 0) {
    std::uint32_t token = 0, offset = 0;
    std::string_view literals;
    in.take_number(1, token);
    std::size_t length = token >> 4;
    if (!extend(in, size, length) || !in.take(length, literals) || literals.size() > size - out.size())
      return false;
    out += literals;
    if (in.left() == 0) return true;  // the last sequence has no match
    std::size_t match = token & 0xF;
    if (!in.take_number(2, offset) || offset == 0 || offset > out.size() || !extend(in, size, match))
      return false;
    match += kLeastMatch;
    if (match > size - out.size()) return false;
    // Byte by byte: a match may overlap what it writes.
    for (std::size_t i = 0; i < match; ++i) out += out[out.size() - offset];
  }
  return false;  // a block ends with literals
}

bool read_header(Reader& in, unsigned& flags) {
  std::uint32_t magic = 0, descriptor = 0, sizes = 0;
  std::string_view ignored;
  if (!in.take_number(4, magic) || magic != kMagic || !in.take_number(1, descriptor) ||
      !in.take_number(1, sizes))
    return false;
  flags = descriptor;
  if ((flags & kVersionMask) != kVersion || (flags & (kReserved | kDictionary)) != 0) return false;
  return in.take((flags & kContentSize) != 0 ? 9 : 1, ignored);  // content size, checksum of the header
}

}  // namespace

Result<std::string> read_lz4_frame(std::string_view frame, std::size_t size) {
  Reader in(frame);
  unsigned flags = 0;
  if (!read_header(in, flags)) return bad("it does not begin like an LZ4 frame");
  std::string out;
  out.reserve(size);
  while (true) {
    std::uint32_t block_size = 0;
    std::string_view block, ignored;
    if (!in.take_number(4, block_size)) return bad("it has no end");
    if (block_size == 0) break;
    if (!in.take(block_size & ~kStored, block) || ((flags & kBlockChecksum) != 0 && !in.take(4, ignored)))
      return bad("a block ends too early");
    if ((block_size & kStored) != 0) {
      if (block.size() > size - out.size()) return bad("it holds more than was said");
      out += block;
    } else if (!read_block(block, size, out)) {
      return bad("a block is damaged or holds more than was said");
    }
  }
  std::string_view ignored;
  if ((flags & kContentChecksum) != 0 && !in.take(4, ignored)) return bad("it has no end");
  if (in.left() > 0) return bad("something follows its end");
  if (out.size() != size) return bad("it holds less than was said");
  return out;
}

}  // namespace gezel::downloads
