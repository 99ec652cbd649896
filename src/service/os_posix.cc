#include <fcntl.h>
#include <fmt/format.h>
#include <pwd.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "service/os.h"

namespace gezel::service {
namespace {

// Clocks are stepped and ticks are coarse; a pid is not reused within this time.
constexpr std::chrono::seconds kStartTolerance{2};
constexpr std::size_t kMaxUserEntry = 1 * kMiB;
// Somebody who only asks whether a lock is held has it for microseconds.
constexpr int kLockAttempts = 5;
constexpr Millis kLockPause{2};

// Seconds since the epoch at which the machine started; nothing where /proc does not say.
std::optional<std::int64_t> boot_time() {
  const auto text = read_file("/proc/stat", 4 * kMiB);
  if (!text) return std::nullopt;
  const std::size_t at = text->find("\nbtime ");
  if (at == std::string::npos) return std::nullopt;
  return std::strtoll(text->c_str() + at + 7, nullptr, 10);
}

std::optional<WallTime> start_time(std::int64_t pid) {
  const auto text = read_file(fmt::format("/proc/{}/stat", pid), 64 * kKiB);
  const auto boot = boot_time();
  const long ticks_per_second = ::sysconf(_SC_CLK_TCK);
  if (!text || !boot || ticks_per_second <= 0) return std::nullopt;
  // The name in parentheses may hold anything; field 22 counts from the state that follows it.
  const std::size_t name_end = text->rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::size_t at = name_end + 2;
  for (int field = 3; field < 22; ++field) {
    at = text->find(' ', at);
    if (at == std::string::npos) return std::nullopt;
    ++at;
  }
  const long long ticks = std::strtoll(text->c_str() + at, nullptr, 10);
  return WallTime(std::chrono::seconds(*boot) + std::chrono::milliseconds(ticks * 1000 / ticks_per_second));
}

}  // namespace

std::int64_t own_pid() {
  return ::getpid();
}

std::optional<std::string> user_folder() {
  std::vector<char> buffer(4 * kKiB);
  passwd entry{};
  passwd* found = nullptr;
  int error = 0;
  while ((error = ::getpwuid_r(::geteuid(), &entry, buffer.data(), buffer.size(), &found)) == ERANGE &&
         buffer.size() < kMaxUserEntry) {
    buffer.resize(buffer.size() * 2);
  }
  if (error != 0 || found == nullptr || found->pw_dir == nullptr || *found->pw_dir == '\0')
    return std::nullopt;
  return found->pw_dir;
}

bool writer_may_live(std::int64_t pid, WallTime written) {
  if (pid <= 0) return false;
  if (::kill(static_cast<pid_t>(pid), 0) != 0 && errno != EPERM) return false;
  const auto started = start_time(pid);
  return !started || *started <= written + kStartTolerance;
}

Result<Fd> open_lock_file(const fs::path& path, OpenHow how) {
  const int flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW | (how == OpenHow::create_new ? O_CREAT | O_EXCL : 0);
  Fd fd(::open(path.c_str(), flags, 0600));
  if (fd) return fd;
  Error error = errno_error(fmt::format("open {}", path.string()), errno);
  if (errno == EEXIST) error.kind = ErrorKind::conflict;
  return std::unexpected(std::move(error));
}

bool try_lock(const Fd& fd) {
  for (int attempt = 1;; ++attempt) {
    if (::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) return true;
    if (attempt == kLockAttempts) return false;
    std::this_thread::sleep_for(kLockPause);
  }
}

// There is no way to ask but to try; a shared lock keeps others that only ask from being misled.
bool is_locked(const fs::path& path) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  return fd && ::flock(fd.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

bool is_still(const Fd& fd, const fs::path& path) {
  struct stat ours{};
  struct stat there{};
  return ::fstat(fd.get(), &ours) == 0 && ::lstat(path.c_str(), &there) == 0 && ours.st_ino == there.st_ino &&
         ours.st_dev == there.st_dev;
}

Result<LockContent> read_lock(const Fd& fd) {
  std::array<char, 64> buffer{};
  const ssize_t got = ::pread(fd.get(), buffer.data(), buffer.size(), 0);
  struct stat info{};
  if (got < 0 || ::fstat(fd.get(), &info) != 0)
    return std::unexpected(errno_error("read the lock file", errno));
  return LockContent{std::string(buffer.data(), static_cast<std::size_t>(got)),
                     WallTime(std::chrono::seconds(info.st_mtim.tv_sec) +
                              std::chrono::duration_cast<WallTime::duration>(
                                  std::chrono::nanoseconds(info.st_mtim.tv_nsec)))};
}

Result<> write_lock(const Fd& fd, const std::string& text) {
  const bool written = ::fchmod(fd.get(), 0600) == 0 && ::ftruncate(fd.get(), 0) == 0 &&
                       ::pwrite(fd.get(), text.data(), text.size(), 0) == static_cast<ssize_t>(text.size());
  if (!written) return std::unexpected(errno_error("write the lock file", errno));
  return {};
}

Result<> write_file_exclusive(const fs::path& path, const std::string& content) {
  ::unlink(path.c_str());
  GEZEL_TRY(const Fd fd, open_lock_file(path, OpenHow::create_new));
  return write_lock(fd, content);
}

}  // namespace gezel::service
