// downloads/partial_file.h
//
// A file that is still arriving. Never through a link: what is written to must be what was made here.
#pragma once
#include <string_view>

#include "base/bytes.h"
#include "base/files.h"
#include "base/result.h"

namespace gezel::downloads {

class PartialFile {
 public:
  // Opens or creates it (mode 0600); writing goes on at its end. Error also when it is a link or no file.
  static Result<PartialFile> open(const fs::path& path);
  PartialFile(PartialFile&& other) noexcept;
  PartialFile& operator=(PartialFile&&) = delete;
  ~PartialFile();

  Bytes size() const { return size_; }
  // A full disk is `insufficient_disk`.
  Result<> append(std::string_view data);
  Result<> truncate(Bytes size);
  Result<> sync();

 private:
  PartialFile(int fd, fs::path path, Bytes size) : fd_(fd), path_(std::move(path)), size_(size) {}
  std::unexpected<Error> error(std::string_view what, int number) const;

  int fd_;
  fs::path path_;
  Bytes size_;
};

}  // namespace gezel::downloads
