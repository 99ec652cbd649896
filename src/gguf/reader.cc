#include "gguf/reader.h"

#include <algorithm>

namespace gezel::gguf {

bool Reader::check(Bytes size) {
  if (size > remaining()) {
    failure_ = Failure::end;
  } else if (position_ + size > budget_) {
    failure_ = Failure::budget;
  } else {
    return true;
  }
  return false;
}

bool Reader::fetch(Bytes offset, std::span<char> out) {
  ++operations_;
  bytes_read_ += out.size();
  if (source_.read_at(offset, out)) return true;
  failure_ = Failure::io;
  return false;
}

bool Reader::read(char* out, std::size_t size) {
  if (!check(size)) return false;
  const bool buffered = position_ >= window_at_ && position_ + size <= window_at_ + window_.size();
  if (!buffered) {
    // Of a file that is here in part the window holds what there is, and the source says what is missing.
    const Bytes there = source_.available();
    if (size > kReadAheadBytes || position_ + size > there) {
      if (!fetch(position_, {out, size})) return false;
      position_ += size;
      return true;
    }
    window_.resize(std::min<Bytes>(kReadAheadBytes, there - position_));
    window_at_ = position_;
    if (!fetch(position_, window_)) {
      window_.clear();
      return false;
    }
  }
  std::memcpy(out, window_.data() + (position_ - window_at_), size);
  position_ += size;
  return true;
}

bool Reader::skip(Bytes size) {
  if (!check(size)) return false;
  position_ += size;
  return true;
}

std::uint64_t Reader::skip_buffered_strings(std::uint64_t count, Bytes longest) {
  const Bytes window_end = std::min<Bytes>(window_at_ + window_.size(), budget_);
  if (position_ < window_at_ || position_ >= window_end) return 0;
  const char* at = window_.data() + (position_ - window_at_);
  const char* const end = window_.data() + (window_end - window_at_);
  std::uint64_t done = 0, length = 0;
  for (; done < count && end - at >= static_cast<std::ptrdiff_t>(sizeof length); ++done) {
    std::memcpy(&length, at, sizeof length);
    if (length > longest || length > static_cast<Bytes>(end - at) - sizeof length) break;
    at += sizeof length + length;
  }
  position_ = window_at_ + static_cast<Bytes>(at - window_.data());
  return done;
}

}  // namespace gezel::gguf
