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
    if (size > kReadAheadBytes) {
      if (!fetch(position_, {out, size})) return false;
      position_ += size;
      return true;
    }
    window_.resize(std::min<Bytes>(kReadAheadBytes, remaining()));
    window_at_ = position_;
    if (!fetch(position_, window_)) {
      // The beginning of a file may end inside the window; what is asked for may still be there.
      window_.clear();
      if (!fetch(position_, {out, size})) return false;
      failure_ = Failure::none;
      position_ += size;
      return true;
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

}  // namespace gezel::gguf
