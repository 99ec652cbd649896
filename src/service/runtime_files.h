// service/runtime_files.h
//
// What a running daemon leaves in <home>/runtime (spec 10 sections 1.4 and 1.5): the single-instance lock,
// and the files by which clients find it.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/files.h"
#include "base/process.h"
#include "base/result.h"

namespace gezel::service {

// Held for the life of the daemon; released last. Also an OS advisory lock, so that a reused pid never looks
// alive.
class InstanceLock {
 public:
  // Errors: `already_running` names the pid and the remedy.
  static Result<InstanceLock> acquire(const fs::path& home);
  // Whether a process holds the lock of a home now. Unlike a pid, which another program may have been given
  // since, this cannot be out of date.
  static bool is_held(const fs::path& home);
  InstanceLock(InstanceLock&&) noexcept;
  InstanceLock& operator=(InstanceLock&&) noexcept;
  ~InstanceLock();
  void release();

 private:
  InstanceLock() = default;
  fs::path path_;
  Fd fd_;
};

// Writes auth-token, pid, service-role, then port last; each as section 1.4 says. Removes stale certificate
// files.
Result<> write_runtime_files(const fs::path& home, std::uint16_t port, const std::string& client_token);
void remove_runtime_files(const fs::path& home);
// What crashes left of files that were being written in the home, an hour old and more. Under the lock.
void remove_leftovers(const fs::path& home);

// What a client finds: port and token. Errors: `daemon_unreachable` when no daemon runs there,
// `home_unreadable` when this user may not know.
struct DaemonAddress {
  std::uint16_t port = 0;
  std::string token;
  int pid = 0;
};
Result<DaemonAddress> find_daemon(const fs::path& home);

// GEZEL_HOME, else .gezel in HOME, else in `user_folder` (of the system's list of users). The environment is
// read by main() and passed in. Error `no_home` when none of them is known.
Result<fs::path> default_home(const char* gezel_home, const char* home,
                              const std::optional<std::string>& user_folder);

// Whether what is kept in a home can be read at all; without this an unreadable home looks like an empty one.
// A home that does not exist yet can. Error `home_unreadable` names the folder, the reason and the remedy.
Result<> check_home(const fs::path& home);

}  // namespace gezel::service
