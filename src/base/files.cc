#include "base/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <vector>

#include "base/process.h"
#include "base/temporary_files.h"
#include "base/write_all.h"

namespace gezel {

Result<std::string> read_file(const fs::path& path, Bytes limit) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return std::unexpected(errno_error(fmt::format("open {}", path.string()), errno));
  std::string content;
  std::vector<char> buffer(64 * kKiB);
  while (true) {
    const ssize_t got = ::read(fd.get(), buffer.data(), buffer.size());
    if (got < 0) {
      if (errno == EINTR) continue;
      return std::unexpected(errno_error(fmt::format("read {}", path.string()), errno));
    }
    if (got == 0) return content;
    content.append(buffer.data(), static_cast<std::size_t>(got));
    if (content.size() > limit) {
      return fail(ErrorKind::too_large, "file_too_large",
                  fmt::format("{} is larger than {}", path.string(), format_bytes(limit)));
    }
  }
}

Result<> write_file_atomic(const fs::path& path, std::string_view content, unsigned mode, bool durable) {
  std::string temporary = temporary_template(path);
  Fd fd(::mkostemp(temporary.data(), O_CLOEXEC));
  if (!fd) return std::unexpected(errno_error(fmt::format("create {}", temporary), errno));
  Result<> result;
  if (!write_all(fd.get(), content))
    result = std::unexpected(errno_error(fmt::format("write {}", temporary), errno));
  if (result && ::fchmod(fd.get(), mode) != 0) result = std::unexpected(errno_error("set file mode", errno));
  if (result && durable && ::fsync(fd.get()) != 0) result = std::unexpected(errno_error("sync file", errno));
  fd.reset();
  if (result && ::rename(temporary.c_str(), path.c_str()) != 0) {
    result = std::unexpected(errno_error(fmt::format("replace {}", path.string()), errno));
  }
  if (!result) {
    ::unlink(temporary.c_str());
    return result;
  }
  if (durable) {
    const Fd folder(::open(path.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (folder) ::fsync(folder.get());
  }
  return {};
}

Result<std::optional<unsigned>> set_file_mode(const fs::path& path, unsigned mode) {
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0) {
    if (errno == ENOENT) return std::nullopt;
    return std::unexpected(errno_error(fmt::format("stat {}", path.string()), errno));
  }
  const unsigned before = info.st_mode & 07777;
  if (before == mode) return std::nullopt;
  if (::chmod(path.c_str(), mode) != 0) {
    return std::unexpected(errno_error(fmt::format("set the mode of {}", path.string()), errno));
  }
  return before;
}

Result<> make_private_folder(const fs::path& path) {
  fs::path sofar;
  for (const auto& part : path) {
    sofar /= part;
    if (::mkdir(sofar.c_str(), 0700) == 0 || errno == EEXIST || errno == EISDIR) continue;
    const int error_number = errno;  // the look at the folder would replace it
    // An ancestor we may not write to is fine as long as it exists.
    std::error_code ignored;
    if (!fs::is_directory(sofar, ignored)) {
      return std::unexpected(errno_error(fmt::format("create folder {}", sofar.string()), error_number));
    }
  }
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    return fail(ErrorKind::io, "io_error", fmt::format("{} exists and is not a folder", path.string()));
  }
  return {};
}

Result<> check_folder(const fs::path& path) {
  const Fd folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder && ::faccessat(AT_FDCWD, path.c_str(), X_OK, AT_EACCESS) == 0) return {};
  if (errno == ENOENT) return {};
  Error error = errno_error(path.string(), errno);
  char& reason = error.message[path.string().size() + 2];  // it continues a sentence
  if (reason >= 'A' && reason <= 'Z') reason = static_cast<char>(reason - 'A' + 'a');
  return std::unexpected(std::move(error));
}

Result<FileStamp> stamp_file(const fs::path& path) {
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0) {
    return std::unexpected(errno_error(fmt::format("stat {}", path.string()), errno));
  }
  return FileStamp{static_cast<Bytes>(info.st_size),
                   static_cast<std::int64_t>(info.st_mtim.tv_sec) * 1'000'000'000 + info.st_mtim.tv_nsec,
                   static_cast<std::uint64_t>(info.st_ino)};
}

Result<std::string> sha256_file(const fs::path& path, const std::function<bool(Bytes)>& progress) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return std::unexpected(errno_error(fmt::format("open {}", path.string()), errno));
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(), &EVP_MD_CTX_free);
  EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr);
  std::vector<unsigned char> buffer(1 * kMiB);
  Bytes total = 0;
  while (true) {
    const ssize_t got = ::read(fd.get(), buffer.data(), buffer.size());
    if (got < 0) {
      if (errno == EINTR) continue;
      return std::unexpected(errno_error(fmt::format("read {}", path.string()), errno));
    }
    if (got == 0) break;
    EVP_DigestUpdate(context.get(), buffer.data(), static_cast<std::size_t>(got));
    total += static_cast<Bytes>(got);
    if (progress && !progress(total)) return fail(ErrorKind::cancelled, "cancelled", "hashing was cancelled");
  }
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  EVP_DigestFinal_ex(context.get(), digest, &size);
  std::string out;
  for (unsigned i = 0; i < size; ++i) out += fmt::format("{:02x}", digest[i]);
  return out;
}

}  // namespace gezel
