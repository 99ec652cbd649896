// gguf/source.h
//
// Where the bytes of a model file come from: a file, or memory in tests and fuzzing.
#pragma once
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <span>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"

namespace gezel::gguf {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  virtual Bytes size() const = 0;
  // How many bytes from the beginning can be read now.
  virtual Bytes available() const { return size(); }
  // Fills `out` with the bytes at `offset`. Callers stay inside size(); false means that reading failed.
  virtual bool read_at(Bytes offset, std::span<char> out) = 0;
};

class MemorySource final : public ByteSource {
 public:
  explicit MemorySource(std::string_view bytes) : bytes_(bytes) {}  // not copied
  Bytes size() const override { return bytes_.size(); }
  bool read_at(Bytes offset, std::span<char> out) override;

 private:
  std::string_view bytes_;
};

// The beginning of a file that is not here, as an HTTP range brings it: enough to read a header before a
// download. When reading fails and overran() says so, more of the file is needed.
class PrefixSource final : public ByteSource {
 public:
  PrefixSource(std::string_view beginning, Bytes file_size)
      : beginning_(beginning), file_size_(file_size) {}  // not copied
  Bytes size() const override { return file_size_; }
  Bytes available() const override { return std::min<Bytes>(beginning_.size(), file_size_); }
  bool read_at(Bytes offset, std::span<char> out) override;
  bool overran() const { return overran_; }

 private:
  std::string_view beginning_;
  Bytes file_size_;
  bool overran_ = false;
};

// A regular file. It is read with one system call per read_at, without a buffer of its own.
class FileSource final : public ByteSource {
 public:
  // Errors: `model-invalid`, naming the file (not its folder) and why it cannot be read.
  static Result<FileSource> open(const std::filesystem::path& path);
  Bytes size() const override { return size_; }
  bool read_at(Bytes offset, std::span<char> out) override;

 private:
  FileSource() = default;
  std::ifstream file_;
  Bytes size_ = 0;
};

}  // namespace gezel::gguf
