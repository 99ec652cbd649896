// gguf/reader.h
//
// A bounded little-endian cursor over a ByteSource. Small reads come from a read-ahead window, skipping costs
// nothing, and nothing is ever read past the end of the source or of the header budget.
#pragma once
#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "gguf/source.h"

namespace gezel::gguf {

inline constexpr std::size_t kReadAheadBytes = 256 * kKiB;

class Reader {
 public:
  // Why the last read or skip returned false.
  enum class Failure { none, end, io, budget };

  // Positions beyond `budget` are refused: it bounds the work a hostile header can ask for.
  Reader(ByteSource& source, Bytes budget) : source_(source), size_(source.size()), budget_(budget) {}

  bool read(char* out, std::size_t size);
  bool skip(Bytes size);
  // Skips length-prefixed strings of at most `longest` bytes, as many of `count` as lie whole in the
  // read-ahead window, and returns how many that were. It stops before one that does not; read() and skip()
  // say why.
  std::uint64_t skip_buffered_strings(std::uint64_t count, Bytes longest);

  // An integer or IEEE float as it lies in the file.
  template <class T>
  bool read(T& out) {
    static_assert(std::is_arithmetic_v<T> && std::endian::native == std::endian::little);
    return read(reinterpret_cast<char*>(&out), sizeof out);
  }

  Bytes position() const { return position_; }
  Bytes remaining() const { return size_ - position_; }
  Bytes size() const { return size_; }
  Failure failure() const { return failure_; }

  // Statistics: physical reads and the bytes they brought.
  std::uint64_t read_operations() const { return operations_; }
  Bytes bytes_read() const { return bytes_read_; }

 private:
  bool fetch(Bytes offset, std::span<char> out);
  bool check(Bytes size);

  ByteSource& source_;
  Bytes size_, budget_, position_ = 0;
  std::vector<char> window_;
  Bytes window_at_ = 0;
  std::uint64_t operations_ = 0;
  Bytes bytes_read_ = 0;
  Failure failure_ = Failure::none;
};

}  // namespace gezel::gguf
