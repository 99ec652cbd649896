#include "downloads/partial_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace gezel::downloads {

std::unexpected<Error> PartialFile::error(std::string_view what, int number) const {
  Error out = errno_error(fmt::format("{} {}", what, path_.string()), number);
  if (number == ENOSPC || number == EDQUOT) {
    out.code = "insufficient_disk";
    out.message = fmt::format(
        "the disk is full: {}; free some space, and the download goes on where it stopped", out.message);
  }
  return std::unexpected(std::move(out));
}

Result<PartialFile> PartialFile::open(const fs::path& path) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
  PartialFile out(fd, path, 0);
  if (fd < 0) return out.error("open", errno);
  struct stat status{};
  if (::fstat(fd, &status) != 0) return out.error("look at", errno);
  if (!S_ISREG(status.st_mode)) {
    return fail(ErrorKind::denied, "unsafe_path",
                fmt::format("{} is no regular file; move it away and try again", path.string()));
  }
  out.size_ = static_cast<Bytes>(status.st_size);
  return out;
}

PartialFile::PartialFile(PartialFile&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), path_(std::move(other.path_)), size_(other.size_) {}

PartialFile::~PartialFile() {
  if (fd_ >= 0) ::close(fd_);
}

Result<> PartialFile::append(std::string_view data) {
  while (!data.empty()) {
    const ssize_t written = ::pwrite(fd_, data.data(), data.size(), static_cast<off_t>(size_));
    if (written < 0) {
      if (errno == EINTR) continue;
      return error("write", errno);
    }
    size_ += static_cast<Bytes>(written);
    data.remove_prefix(static_cast<std::size_t>(written));
  }
  return {};
}

Result<> PartialFile::truncate(Bytes size) {
  if (::ftruncate(fd_, static_cast<off_t>(size)) != 0) return error("truncate", errno);
  size_ = size;
  return {};
}

Result<> PartialFile::sync() {
  if (::fsync(fd_) != 0) return error("sync", errno);
  return {};
}

}  // namespace gezel::downloads
