#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <fstream>

#include "engine/os_process.h"

namespace gezel::engine {

void signal_process(std::int64_t pid, EndSignal signal) {
  if (pid <= 1) return;
  const int number = signal == EndSignal::kill ? SIGKILL : SIGTERM;
  // Our children lead their own group; an orphan of an older daemon does too.
  if (::kill(static_cast<pid_t>(-pid), number) != 0) ::kill(static_cast<pid_t>(pid), number);
}

int nice_of(std::int64_t pid) {
  errno = 0;  // -1 is also a nice value
  const int nice = ::getpriority(PRIO_PROCESS, static_cast<id_t>(pid));
  return errno == 0 ? nice : 0;
}

bool set_nice(std::int64_t pid, int nice) {
  // A thread inherits its maker's value, so that only threads which were made during a pass are left for the
  // next one.
  constexpr int kPasses = 8;
  for (int pass = 0; pass < kPasses; ++pass) {
    bool changed = false;
    std::error_code ended;
    for (std::filesystem::directory_iterator it(fmt::format("/proc/{}/task", pid), ended), end;
         !ended && it != end; it.increment(ended)) {
      const std::string name = it->path().filename().string();
      id_t thread = 0;
      if (std::from_chars(name.data(), name.data() + name.size(), thread).ec != std::errc()) continue;
      if (::getpriority(PRIO_PROCESS, thread) == nice) continue;
      if (::setpriority(PRIO_PROCESS, thread, nice) == 0)
        changed = true;
      else if (errno == EACCES || errno == EPERM)
        return false;
    }
    if (!changed) break;
  }
  return true;
}

std::optional<ProcessFacts> process_facts(std::int64_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string stat((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  // proc(5): the command in parentheses may hold anything; fields are counted after its end, which is
  // field 2.
  const auto end = stat.rfind(')');
  if (end == std::string::npos || end + 2 >= stat.size()) return std::nullopt;
  std::string_view rest = std::string_view(stat).substr(end + 2);
  if (rest[0] == 'Z' || rest[0] == 'X') return std::nullopt;
  for (int field = 3; field < 22; ++field) {
    const auto blank = rest.find(' ');
    if (blank == std::string_view::npos) return std::nullopt;
    rest.remove_prefix(blank + 1);
  }
  ProcessFacts facts;
  std::from_chars(rest.data(), rest.data() + rest.size(), facts.start_time);
  std::error_code failed;
  std::string program = std::filesystem::read_symlink(fmt::format("/proc/{}/exe", pid), failed).string();
  // A program that was replaced since it started is still that program.
  if (constexpr std::string_view kDeleted = " (deleted)"; program.ends_with(kDeleted))
    program.resize(program.size() - kDeleted.size());
  facts.program = program;
  return facts;
}

namespace {

class Watch : public std::enable_shared_from_this<Watch> {
 public:
  Watch(const asio::any_io_executor& loop, pid_t pid, std::function<void(ExitStatus)> on_exit)
      : pid_(pid), pidfd_(loop), retry_(loop), on_exit_(std::move(on_exit)) {}
  ~Watch() {
    if (!reaped_) ::waitpid(pid_, nullptr, WNOHANG);
  }

  void start() {
    const int fd = static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0));
    if (fd >= 0) pidfd_.assign(fd);
    wait();
  }
  void forget() { on_exit_ = nullptr; }

 private:
  // The handler owns the watch, so that the child is reaped even when nobody asks any more.
  void wait() {
    auto again = [self = shared_from_this()](const boost::system::error_code& failed) {
      if (!failed) self->look();
    };
    if (pidfd_.is_open()) {
      pidfd_.async_wait(asio::posix::stream_descriptor::wait_read, again);
    } else {
      retry_.expires_after(std::chrono::milliseconds(50));
      retry_.async_wait(again);
    }
  }

  void look() {
    int status = 0;
    const pid_t ended = ::waitpid(pid_, &status, WNOHANG);
    if (ended == 0) return wait();
    reaped_ = true;
    boost::system::error_code ignored;
    pidfd_.close(ignored);
    ExitStatus out;
    if (ended == pid_ && WIFSIGNALED(status)) out.signal = WTERMSIG(status);
    if (ended == pid_ && WIFEXITED(status)) out.code = WEXITSTATUS(status);
    if (auto call = std::move(on_exit_)) call(out);
  }

  pid_t pid_;
  asio::posix::stream_descriptor pidfd_;
  asio::steady_timer retry_;
  std::function<void(ExitStatus)> on_exit_;
  bool reaped_ = false;
};

class Handle final : public ChildWatch {
 public:
  explicit Handle(std::shared_ptr<Watch> watch) : watch_(std::move(watch)) {}
  ~Handle() override { watch_->forget(); }

 private:
  std::shared_ptr<Watch> watch_;
};

}  // namespace

std::unique_ptr<ChildWatch> watch_child(const asio::any_io_executor& loop, std::int64_t pid,
                                        std::function<void(ExitStatus)> on_exit) {
  auto watch = std::make_shared<Watch>(loop, static_cast<pid_t>(pid), std::move(on_exit));
  watch->start();
  return std::make_unique<Handle>(std::move(watch));
}

}  // namespace gezel::engine
