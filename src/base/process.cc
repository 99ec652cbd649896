// A child is made with fork and exec. Between the two only async-signal-safe calls run, so everything that
// allocates is prepared before. A close-on-exec pipe carries errno back when exec fails, and closes silently
// when it succeeds.
#include "base/process.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

extern char** environ;

namespace gezel {
namespace {

bool dropped(std::string_view name, const std::vector<std::string>& patterns) {
  for (const std::string& pattern : patterns) {
    if (!pattern.empty() && pattern.back() == '*') {
      if (name.starts_with(std::string_view(pattern).substr(0, pattern.size() - 1))) return true;
    } else if (name == pattern) {
      return true;
    }
  }
  return false;
}

std::vector<std::string> child_environment(const SpawnOptions& options) {
  std::vector<std::string> out;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::string_view name = text.substr(0, text.find('='));
    bool replaced = false;
    for (const std::string& set : options.env_set)
      replaced |= std::string_view(set).substr(0, set.find('=')) == name;
    if (!replaced && !dropped(name, options.env_drop)) out.emplace_back(text);
  }
  out.insert(out.end(), options.env_set.begin(), options.env_set.end());
  return out;
}

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> out;
  for (std::string& text : strings) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

Error launch_error(const SpawnOptions& options, int error_number) {
  Error error = errno_error("start", error_number);
  error.code = "engine-launch";
  error.message = fmt::format("cannot start {} ({}): {} (path {}, working directory {})",
                              options.program.filename().string(), strerrorname_np(error_number),
                              std::strerror(error_number), options.program.string(), options.cwd.string());
  return error;
}

}  // namespace

void Fd::reset() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

StopSignal::StopSignal(const std::stop_token& stop) {
  int ends[2] = {-1, -1};
  if (!stop.stop_possible() || ::pipe2(ends, O_CLOEXEC) != 0) return;
  read_ = Fd(ends[0]);
  write_ = Fd(ends[1]);
  callback_.emplace(stop, [fd = write_.get()] { (void)!::write(fd, "x", 1); });
}

Result<std::string> run_tool(const std::filesystem::path& program, const std::vector<std::string>& args,
                             Millis limit, std::size_t most_bytes, const std::stop_token& stop) {
  const SystemClock clock;
  const auto deadline = clock.now() + limit;
  const StopSignal stopping(stop);
  GEZEL_TRY(auto child, spawn({.program = program, .args = args}));
  std::string out;
  std::string_view why;
  int raw = 0;
  bool open = true;
  while (true) {
    const auto left = std::chrono::duration_cast<Millis>(deadline - clock.now());
    if (left <= Millis(0)) why = "it took too long";
    if (out.size() > most_bytes) why = "it printed too much";
    if (stop.stop_requested()) why = "nobody waits for it any more";
    if (!why.empty()) break;
    if (!open) {  // its output has ended; it will soon
      if (::waitpid(child.pid, &raw, WNOHANG) == child.pid) break;
      ::poll(nullptr, 0, 5);
      continue;
    }
    pollfd readable[] = {{child.output.get(), POLLIN, 0}, {stopping.fd(), POLLIN, 0}};
    if (::poll(readable, 2, static_cast<int>(left.count())) <= 0 || readable[0].revents == 0) continue;
    char buffer[4096];
    const ssize_t got = ::read(child.output.get(), buffer, sizeof buffer);
    if (got > 0)
      out.append(buffer, static_cast<std::size_t>(got));
    else if (got == 0 || errno != EINTR)
      open = false;
  }
  if (!why.empty()) {
    ::kill(-child.pid, SIGKILL);
    while (::waitpid(child.pid, &raw, 0) < 0 && errno == EINTR) {
    }
    return fail(ErrorKind::timeout, "tool_stopped",
                fmt::format("{} was stopped: {}", program.filename().string(), why));
  }
  const ExitStatus status{WIFEXITED(raw) ? WEXITSTATUS(raw) : 0, WIFSIGNALED(raw) ? WTERMSIG(raw) : 0};
  if (status.code != 0 || status.signal != 0)
    return fail(ErrorKind::io, "tool_failed",
                fmt::format("{} ended with {}", program.filename().string(), describe(status)));
  return out;
}

Result<std::pair<Fd, Fd>> socket_pair() {
  int fds[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0) {
    return std::unexpected(errno_error("create a socket pair", errno));
  }
  return std::pair{Fd(fds[0]), Fd(fds[1])};
}

Result<Child> spawn(const SpawnOptions& options) {
  std::vector<std::string> argument_strings{options.program.string()};
  argument_strings.insert(argument_strings.end(), options.args.begin(), options.args.end());
  std::vector<std::string> environment_strings = child_environment(options);
  const std::vector<char*> arguments = pointers(argument_strings);
  const std::vector<char*> environment = pointers(environment_strings);
  const std::string cwd = options.cwd.empty() ? options.program.parent_path().string() : options.cwd.string();

  int output[2] = {-1, -1};
  Fd output_read, output_write;
  if (options.output_file.empty()) {
    if (::pipe2(output, O_CLOEXEC) != 0) return std::unexpected(errno_error("create a pipe", errno));
    output_read = Fd(output[0]);
    output_write = Fd(output[1]);
  } else {
    output_write = Fd(::open(options.output_file.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600));
    if (!output_write) {
      return std::unexpected(errno_error(fmt::format("open {}", options.output_file.string()), errno));
    }
  }
  const Fd null_in(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  int report[2];
  if (::pipe2(report, O_CLOEXEC) != 0) return std::unexpected(errno_error("create a pipe", errno));
  Fd report_read(report[0]);
  Fd report_write(report[1]);

  // Inherited descriptors are first moved above every target number, so that no dup2 overwrites one still
  // needed.
  int floor = 3;
  for (const auto& [source, target] : options.inherit) floor = std::max(floor, target + 1);
  floor = std::max({floor, report_write.get() + 1, output_write.get() + 1, null_in.get() + 1});

  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return std::unexpected(errno_error("fork", errno));
  if (pid == 0) {
    const auto give_up = [&] {
      const int error_number = errno;
      (void)!::write(report_write.get(), &error_number, sizeof error_number);
      ::_exit(127);
    };
    if (options.new_session) {
      ::setsid();
    } else {
      ::setpgid(0, 0);
    }
    if (options.die_with_parent) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() != parent) ::_exit(127);  // the parent died before the signal was set
    }
    const int report_fd = ::fcntl(report_write.get(), F_DUPFD_CLOEXEC, floor);
    const int output_fd = ::fcntl(output_write.get(), F_DUPFD_CLOEXEC, floor);
    const int null_fd = ::fcntl(null_in.get(), F_DUPFD_CLOEXEC, floor);
    if (report_fd < 0 || output_fd < 0 || null_fd < 0) give_up();
    int moved[8];
    if (options.inherit.size() > 8) ::_exit(127);
    for (std::size_t i = 0; i < options.inherit.size(); ++i) {
      moved[i] = ::fcntl(options.inherit[i].first, F_DUPFD_CLOEXEC, floor);
      if (moved[i] < 0) give_up();
    }
    if (::dup2(null_fd, 0) < 0 || ::dup2(output_fd, 1) < 0 || ::dup2(output_fd, 2) < 0) give_up();
    for (std::size_t i = 0; i < options.inherit.size(); ++i) {
      if (::dup2(moved[i], options.inherit[i].second) < 0) give_up();
    }
    // Descriptors that somebody opened without close-on-exec must not reach the child; those just placed
    // stay.
    int highest = 2;
    for (const auto& entry : options.inherit) highest = std::max(highest, entry.second);
    ::syscall(SYS_close_range, static_cast<unsigned>(highest + 1), ~0U, 4U /* CLOSE_RANGE_CLOEXEC */);
    // The child starts with default signal handling, whatever the parent set up.
    sigset_t none;
    sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    ::signal(SIGPIPE, SIG_DFL);
    if (!cwd.empty() && ::chdir(cwd.c_str()) != 0) give_up();
    ::execve(arguments[0], arguments.data(), environment.data());
    const int error_number = errno;
    (void)!::write(report_fd, &error_number, sizeof error_number);
    ::_exit(127);
  }

  report_write.reset();
  int error_number = 0;
  ssize_t got = 0;
  do {
    got = ::read(report_read.get(), &error_number, sizeof error_number);
  } while (got < 0 && errno == EINTR);
  if (got == sizeof error_number) {
    int status = 0;
    ::waitpid(pid, &status, 0);
    SpawnOptions shown = options;
    shown.cwd = cwd;
    return std::unexpected(launch_error(shown, error_number));
  }
  return Child{pid, std::move(output_read)};
}

std::string describe(ExitStatus status) {
  if (status.signal != 0) return fmt::format("signal {} ({})", status.signal, strsignal(status.signal));
  return fmt::format("exit code {}", status.code);
}

}  // namespace gezel
