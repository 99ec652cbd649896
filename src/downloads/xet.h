// downloads/xet.h
//
// Files that a hub keeps in content-addressed storage (spec 60 section 10.5): what its answers say, and how
// its chunks are unpacked. Pure; who asks for them is xet_transfer.cc.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"

namespace gezel::downloads::xet {

inline constexpr Bytes kMaxAnswerBytes = 16 * kMiB;  // a file of 1 TiB has some 20,000 terms
inline constexpr std::size_t kMaxTerms = 100'000;
inline constexpr std::size_t kMaxSegments = 1'024;  // of one stored object
inline constexpr std::size_t kChunkHeader = 8;

// Where the storage is and the token for it.
struct Access {
  std::string url, token;
};
Result<Access> parse_access(std::string_view text);

// Chunks [begin, end) of a stored object.
struct Chunks {
  std::uint32_t begin = 0, end = 0;
  bool operator==(const Chunks&) const = default;
};
// A run of chunks that can be asked for at once: bytes [first, last] at `url`.
struct Segment {
  Chunks chunks;
  std::string url;
  Bytes first = 0, last = 0;
};
// The next `bytes` of the file.
struct Term {
  Chunks chunks;
  Bytes bytes = 0;
  std::size_t segment = 0;  // that has them
};
struct Reconstruction {
  Bytes skip = 0;  // bytes of the first term that come before the file begins
  std::vector<Term> terms;
  std::vector<Segment> segments;
  Bytes total = 0;  // of the file
};
// Errors `bad_reconstruction`: also for terms without a segment, and sums that wrap around.
Result<Reconstruction> parse_reconstruction(std::string_view text);

// Unpacks chunks as their bytes come in, in pieces of any size.
class ChunkReader {
 public:
  // `chunk` gets each chunk's number in the segment, from 0 on, and its bytes.
  template <class Sink>
  Result<> feed(std::string_view data, Sink&& chunk) {
    buffer_ += data;
    std::string_view rest = buffer_;
    while (true) {
      GEZEL_TRY(const std::size_t size, packed_size(rest));
      if (size == 0 || rest.size() < size) break;
      GEZEL_TRY(const std::string bytes, unpack(rest.substr(0, size)));
      GEZEL_CHECK(chunk(count_++, std::string_view(bytes)));
      rest.remove_prefix(size);
    }
    buffer_.erase(0, buffer_.size() - rest.size());
    return {};
  }
  std::uint32_t count() const { return count_; }
  bool complete() const { return buffer_.empty(); }  // it stopped at the end of a chunk

 private:
  // Of the chunk at the beginning with its header; 0 = the header is not all there.
  static Result<std::size_t> packed_size(std::string_view data);
  static Result<std::string> unpack(std::string_view chunk);

  std::string buffer_;
  std::uint32_t count_ = 0;
};

}  // namespace gezel::downloads::xet
