// service/os.h
//
// What the instance lock and the runtime files need of the operating system.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/files.h"
#include "base/process.h"
#include "base/result.h"

namespace gezel::service {

std::int64_t own_pid();
// The home folder of the user this process runs as, from the system's list of users; nothing when the user is
// not in it or has none there.
std::optional<std::string> user_folder();

// Whether the process that wrote `pid` into a file at `written` may still run: a process with that pid lives,
// and it did not start after the file was written (then the number has been given to someone else).
bool writer_may_live(std::int64_t pid, WallTime written);

enum class OpenHow { existing, create_new };
// For reading and writing, mode 0600, never through a link. Errors keep their kind: not_found, conflict
// (exists), denied, io.
Result<Fd> open_lock_file(const fs::path& path, OpenHow how);
// An advisory lock on the whole file until `fd` is closed or the process ends. False: somebody else has it,
// for longer than is_locked() takes.
bool try_lock(const Fd& fd);
// Whether anybody holds that lock. No such file: nobody does.
bool is_locked(const fs::path& path);
// Whether `path` still names the file behind `fd`.
bool is_still(const Fd& fd, const fs::path& path);
// The first bytes of the file, and when it was last written.
struct LockContent {
  std::string text;
  WallTime written;
};
Result<LockContent> read_lock(const Fd& fd);
Result<> write_lock(const Fd& fd, const std::string& text);

// Removes what is at `path`, then makes a new file there with mode 0600: fails when something appears in
// between.
Result<> write_file_exclusive(const fs::path& path, const std::string& content);

}  // namespace gezel::service
