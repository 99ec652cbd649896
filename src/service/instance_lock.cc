// The lock file holds our pid for people and for other programs; what decides is an advisory lock on it,
// which ends with its process however that ends. A pid alone is believed only of a process that is older than
// the file: an implementation without advisory locks may have written it, and a number that was given out
// again can never look like it.
#include <fmt/format.h>

#include <charconv>
#include <utility>

#include "service/os.h"
#include "service/runtime_files.h"

namespace gezel::service {
namespace {

constexpr int kAttempts = 3;

fs::path lock_path(const fs::path& home) {
  return home / "runtime" / "lock";
}

// The decimal number at the start, -1 when there is none.
std::int64_t parse_pid(std::string_view text) {
  if (const std::size_t end = text.find('\n'); end != std::string_view::npos) text = text.substr(0, end);
  std::int64_t pid = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), pid);
  return error == std::errc() && end == text.data() + text.size() && pid > 0 ? pid : -1;
}

std::unexpected<Error> already_running(const fs::path& home, std::int64_t pid) {
  const std::string who =
      pid < 0 ? "another process (pid unknown, it is just starting)" : fmt::format("pid {}", pid);
  return fail(
      ErrorKind::conflict, "already_running",
      fmt::format("a gezel daemon already runs on {} as {}. Stop it with `gezel stop`, or set GEZEL_HOME to "
                  "another folder.",
                  home.string(), who));
}

}  // namespace

Result<InstanceLock> InstanceLock::acquire(const fs::path& home) {
  GEZEL_CHECK(make_private_folder(home / "runtime"));
  InstanceLock lock;
  lock.path_ = lock_path(home);
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    auto fd = open_lock_file(lock.path_, OpenHow::create_new);
    if (!fd && fd.error().kind != ErrorKind::conflict) return std::unexpected(std::move(fd).error());
    if (!fd) fd = open_lock_file(lock.path_, OpenHow::existing);
    if (!fd) {
      // A link, a folder or a file that is not ours to read: out of the way with it, and once more.
      std::error_code ignored;
      if (fd.error().kind != ErrorKind::not_found) fs::remove(lock.path_, ignored);
      continue;
    }
    const auto content = read_lock(*fd);
    const std::int64_t pid = content ? parse_pid(content->text) : -1;
    if (!try_lock(*fd)) return already_running(home, pid);
    // Released and removed between our open and our lock: what we hold is no longer the lock file.
    if (!is_still(*fd, lock.path_)) continue;
    if (content && pid != own_pid() && writer_may_live(pid, content->written))
      return already_running(home, pid);
    GEZEL_CHECK(write_lock(*fd, fmt::format("{}\n", own_pid())));
    lock.fd_ = std::move(*fd);
    return lock;
  }
  return fail(
      ErrorKind::conflict, "already_running",
      fmt::format("cannot take the lock {} (holder pid -1) in {} attempts; remove it if no daemon runs",
                  lock.path_.string(), kAttempts));
}

bool InstanceLock::is_held(const fs::path& home) {
  return is_locked(lock_path(home));
}

InstanceLock::InstanceLock(InstanceLock&& other) noexcept
    : path_(std::exchange(other.path_, {})), fd_(std::move(other.fd_)) {}

InstanceLock& InstanceLock::operator=(InstanceLock&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  return *this;
}

InstanceLock::~InstanceLock() {
  release();
}

void InstanceLock::release() {
  if (!fd_) return;
  // Removed while the lock is still held. A file that names somebody else is theirs.
  const auto there = read_file(path_, 64);
  if (!there || there->empty() || parse_pid(*there) == own_pid()) {
    std::error_code ignored;
    fs::remove(path_, ignored);
  }
  fd_.reset();
}

}  // namespace gezel::service
