#include "models/disk.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <vector>

#include "base/process.h"
#include "base/write_all.h"

namespace gezel::models {
namespace {

constexpr std::size_t kCopyBytes = 4 * kMiB;

std::unexpected<Error> write_error(const fs::path& target, int error_number) {
  Error error = errno_error(fmt::format("write {}", target.string()), error_number);
  if (error_number == ENOSPC || error_number == EDQUOT) error.code = "insufficient_disk";
  return std::unexpected(std::move(error));
}

Result<std::string> copy_open(int from, int to, const fs::path& source, const fs::path& target,
                              const std::function<bool(Bytes)>& progress) {
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(), &EVP_MD_CTX_free);
  EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr);
  std::vector<unsigned char> buffer(kCopyBytes);
  Bytes total = 0;
  while (true) {
    const ssize_t got = ::read(from, buffer.data(), buffer.size());
    if (got < 0) {
      if (errno == EINTR) continue;
      return std::unexpected(errno_error(fmt::format("read {}", source.string()), errno));
    }
    if (got == 0) break;
    const auto size = static_cast<std::size_t>(got);
    EVP_DigestUpdate(context.get(), buffer.data(), size);
    if (!write_all(to, {reinterpret_cast<const char*>(buffer.data()), size}))
      return write_error(target, errno);
    total += size;
    if (progress && !progress(total))
      return fail(ErrorKind::cancelled, "cancelled", "the copy was cancelled");
  }
  if (::fsync(to) != 0) return write_error(target, errno);
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  EVP_DigestFinal_ex(context.get(), digest, &size);
  std::string out;
  for (unsigned i = 0; i < size; ++i) out += fmt::format("{:02x}", digest[i]);
  return out;
}

}  // namespace

Result<std::string> copy_and_hash(const fs::path& source, const fs::path& target,
                                  const std::function<bool(Bytes)>& progress) {
  const Fd from(::open(source.c_str(), O_RDONLY | O_CLOEXEC));
  if (!from) return std::unexpected(errno_error(fmt::format("open {}", source.string()), errno));
  Fd to(::open(target.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!to) return write_error(target, errno);
  auto digest = copy_open(from.get(), to.get(), source, target, progress);
  to.reset();
  if (!digest) ::unlink(target.c_str());
  return digest;
}

Result<> sync_folder(const fs::path& folder) {
  const Fd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return std::unexpected(errno_error(fmt::format("open {}", folder.string()), errno));
  // Some network file systems cannot sync a folder; they say so with EINVAL.
  if (::fsync(fd.get()) != 0 && errno != EINVAL) {
    return std::unexpected(errno_error(fmt::format("sync {}", folder.string()), errno));
  }
  return {};
}

Result<> rename_new(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::create_hard_link(from, to, error);
  if (!error) {
    fs::remove(from, error);
    return {};
  }
  // A memory stick has no hard links.
  if (error != std::errc::file_exists && !fs::exists(fs::symlink_status(to, error))) {
    fs::rename(from, to, error);
    if (!error) return {};
    return std::unexpected(
        errno_error(fmt::format("rename {} to {}", from.string(), to.string()), error.value()));
  }
  return fail(ErrorKind::conflict, "file_exists", fmt::format("{} is there already", to.string()));
}

std::optional<Bytes> free_space(const fs::path& path) {
  std::error_code error;
  fs::path existing = path;
  while (!existing.empty() && !fs::exists(existing, error)) {
    if (existing == existing.parent_path()) return std::nullopt;
    existing = existing.parent_path();
  }
  const fs::space_info space = fs::space(existing, error);
  if (error) return std::nullopt;
  return space.available;
}

bool same_file_system(const fs::path& a, const fs::path& b) {
  struct stat first{};
  struct stat second{};
  return ::stat(a.c_str(), &first) == 0 && ::stat(b.c_str(), &second) == 0 && first.st_dev == second.st_dev;
}

Result<std::uint64_t> device_of(const fs::path& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0)
    return std::unexpected(errno_error(fmt::format("stat {}", path.string()), errno));
  return static_cast<std::uint64_t>(status.st_dev);
}

Result<> check_real_folders(const fs::path& base, const fs::path& target) {
  const fs::path relative = target.lexically_normal().lexically_relative(base.lexically_normal());
  if (relative.empty() || relative == "." || *relative.begin() == "..") {
    return fail(ErrorKind::denied, "unsafe_path",
                fmt::format("{} is not inside {}; nothing was changed", target.string(), base.string()));
  }
  fs::path sofar = base;
  for (const auto& part : relative) {
    sofar /= part;
    std::error_code error;
    const fs::file_status status = fs::symlink_status(sofar, error);
    if (status.type() == fs::file_type::not_found) return {};
    if (status.type() != fs::file_type::directory) {
      return fail(
          ErrorKind::denied, "unsafe_path",
          fmt::format("{} is {}, but a folder of the model store must be a real folder; nothing was "
                      "changed. Move it away and try again.",
                      sofar.string(), status.type() == fs::file_type::symlink ? "a link" : "not a folder"));
    }
  }
  return {};
}

}  // namespace gezel::models
