// base/process.h
//
// Child processes: started without a shell, in their own process group, tied to our life, with exactly the
// descriptors we give them. Linux ties the child by the parent-death signal, which follows the *thread* that
// spawned it: spawn from a thread that lives as long as the process (the event loop's).
#pragma once
#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace gezel {

// Owns a file descriptor.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Fd() { reset(); }
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }
  void reset();
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

struct SpawnOptions {
  std::filesystem::path program;      // absolute
  std::vector<std::string> args;      // without the program itself
  std::vector<std::string> env_set;   // "NAME=value", added to or replacing the parent's
  std::vector<std::string> env_drop;  // names, or prefixes ending in '*'
  std::filesystem::path cwd;          // empty: the program's folder
  // (descriptor here, number in the child); everything else but 0, 1, 2 is closed in the child.
  std::vector<std::pair<int, int>> inherit;
  bool die_with_parent = true;
  bool new_session = false;           // setsid: for a daemon that outlives its terminal
  std::filesystem::path output_file;  // appended to instead of pipes; empty: pipes
};

struct Child {
  pid_t pid = -1;
  Fd output;  // read end: the child's stdout and stderr together; empty when output_file was given
};

// Starts the program. Failures of exec are reported here (code `engine-launch`), not as an exit of the child.
Result<Child> spawn(const SpawnOptions& options);

// For poll(): a descriptor that is readable from the moment on when somebody asked to stop.
class StopSignal {
 public:
  explicit StopSignal(const std::stop_token& stop);
  int fd() const { return read_.get(); }  // -1, which poll() passes over, where nobody can ask

 private:
  Fd read_, write_;
  std::optional<std::stop_callback<std::function<void()>>> callback_;
};

// Runs a short program to its end and returns what it printed, both streams together. Blocks; the calling
// thread must live as long as the program may. Errors: `engine-launch`, `tool_failed` when it ended otherwise
// than with 0, `tool_stopped` after `limit`, more than `most_bytes` or a request to stop: it is killed then.
Result<std::string> run_tool(const std::filesystem::path& program, const std::vector<std::string>& args,
                             Millis limit, std::size_t most_bytes, const std::stop_token& stop = {});

// A pair of connected stream sockets, both close-on-exec.
Result<std::pair<Fd, Fd>> socket_pair();

// How a child ended.
struct ExitStatus {
  int code = 0;    // exit code, when signal is 0
  int signal = 0;  // terminating signal, or 0
};
std::string describe(ExitStatus status);  // "exit code 3", "signal 11 (Segmentation fault)"

}  // namespace gezel
