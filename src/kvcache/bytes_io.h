// kvcache/bytes_io.h
//
// Little-endian fields in a run of bytes, read with every length checked and written in order. Private to the
// module.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

namespace gezel::kvcache {

static_assert(std::endian::native == std::endian::little, "images and records are little-endian");

using ByteSpan = std::span<const std::byte>;

// Reads fields from the front. After the first read beyond the end everything reads as 0 and ok() is false.
class ByteReader {
 public:
  explicit ByteReader(ByteSpan bytes) : bytes_(bytes) {}

  template <class T>
  T read() {
    static_assert(std::is_trivially_copyable_v<T>);
    T value{};
    if (const ByteSpan from = take(sizeof(T)); !from.empty()) std::memcpy(&value, from.data(), sizeof(T));
    return value;
  }
  // The next `count` bytes; empty when there are fewer.
  ByteSpan take(std::uint64_t count) {
    if (!ok_ || count > left()) {
      ok_ = false;
      return {};
    }
    const ByteSpan taken = bytes_.subspan(at_, static_cast<std::size_t>(count));
    at_ += static_cast<std::size_t>(count);
    return taken;
  }
  // Skips count × size bytes, which may be more than 64 bits can say.
  void skip(std::uint64_t count, std::uint64_t size) {
    if (!ok_ || (size != 0 && count > left() / size)) {
      ok_ = false;
    } else {
      at_ += static_cast<std::size_t>(count * size);
    }
  }

  bool ok() const { return ok_; }
  bool at_end() const { return ok_ && left() == 0; }
  std::size_t at() const { return at_; }
  std::uint64_t left() const { return bytes_.size() - at_; }

 private:
  ByteSpan bytes_;
  std::size_t at_ = 0;
  bool ok_ = true;
};

// Appends fields to `out`.
template <class Bytes>
class ByteWriter {
 public:
  explicit ByteWriter(Bytes& out) : out_(out) {}
  template <class T>
  void write(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    append(std::as_bytes(std::span(&value, 1)));
  }
  void append(ByteSpan bytes) { out_.insert(out_.end(), bytes.begin(), bytes.end()); }

 private:
  Bytes& out_;
};

}  // namespace gezel::kvcache
