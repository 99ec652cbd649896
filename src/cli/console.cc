#include "cli/console.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <thread>

#include "cli/exit_codes.h"

namespace gezel::cli {
namespace {

constexpr int kTickMs = 50;           // how long Ctrl-C may go unnoticed
constexpr Millis kQuietInput{2'000};  // then `on_wait` is called
constexpr Bytes kMaxProgramOutput = 16 * kMiB;

std::atomic<bool> interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free, "written by a signal handler");
int nesting = 0;
struct sigaction previous_int, previous_term;

void on_signal(int) {
  interrupted.store(true);
}

MonotonicTime now() {
  return std::chrono::steady_clock::now();
}

// The exit status in our words.
ExitStatus exit_status(int status) {
  if (WIFSIGNALED(status)) return {.code = 0, .signal = WTERMSIG(status)};
  return {.code = WEXITSTATUS(status), .signal = 0};
}

// False: nothing came within a tick.
bool readable_soon(int descriptor) {
  pollfd entry{.fd = descriptor, .events = POLLIN, .revents = 0};
  return ::poll(&entry, 1, kTickMs) > 0;
}

Error interrupted_error() {
  return {ErrorKind::cancelled, std::string(kCodeInterrupted), "interrupted", {}};
}

}  // namespace

bool is_terminal(int descriptor) {
  return ::isatty(descriptor) == 1;
}

int terminal_columns(int descriptor) {
  winsize size{};
  if (::ioctl(descriptor, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

bool has_piped_input(int descriptor) {
  struct stat info{};
  if (::fstat(descriptor, &info) != 0) return false;
  return S_ISFIFO(info.st_mode) || S_ISREG(info.st_mode) || S_ISSOCK(info.st_mode);
}

std::filesystem::path executable_path() {
  std::error_code error;
  std::filesystem::path path = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? std::filesystem::path() : path;
}

Interrupt::Interrupt() {
  if (nesting++ > 0) return;
  interrupted.store(false);
  struct sigaction action{};
  action.sa_handler = on_signal;
  action.sa_flags =
      SA_RESTART;  // else output that is being written gets lost; whoever waits looks at the flag
  ::sigaction(SIGINT, &action, &previous_int);
  ::sigaction(SIGTERM, &action, &previous_term);
}

Interrupt::~Interrupt() {
  if (--nesting > 0) return;
  ::sigaction(SIGINT, &previous_int, nullptr);
  ::sigaction(SIGTERM, &previous_term, nullptr);
  interrupted.store(false);
}

bool Interrupt::raised() {
  return interrupted.load();
}
void Interrupt::clear() {
  interrupted.store(false);
}

bool wait_for_input(int descriptor) {
  while (!Interrupt::raised()) {
    if (readable_soon(descriptor)) return true;
  }
  return false;
}

Result<std::string> read_input(int descriptor, Bytes limit, const std::function<bool()>& on_wait) {
  std::string text;
  const MonotonicTime start = now();
  bool waited = false;
  char buffer[64 * 1024];
  for (;;) {
    if (Interrupt::raised()) return std::unexpected(interrupted_error());
    if (!readable_soon(descriptor)) {
      if (!waited && now() - start > kQuietInput) {
        waited = true;
        if (!on_wait()) return text;
      }
      continue;
    }
    const ssize_t got = ::read(descriptor, buffer, sizeof buffer);
    if (got == 0) return text;
    if (got < 0) {
      if (errno == EINTR || errno == EAGAIN) continue;
      return std::unexpected(errno_error("read standard input", errno));
    }
    waited = true;
    if (text.size() + static_cast<std::size_t>(got) > limit) {
      return fail(ErrorKind::too_large, "input_too_large",
                  fmt::format("standard input is larger than {}, the most a prompt may have; send less",
                              format_bytes(limit)));
    }
    text.append(buffer, static_cast<std::size_t>(got));
  }
}

std::optional<ExitStatus> try_wait(pid_t pid) {
  int status = 0;
  if (::waitpid(pid, &status, WNOHANG) != pid) return std::nullopt;
  return exit_status(status);
}

bool process_alive(pid_t pid) {
  if (pid <= 0 || (::kill(pid, 0) != 0 && errno != EPERM)) return false;
  // A process that ended but was not collected still has its number; in a container without an init that
  // stays so.
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string text;
  if (!std::getline(file, text)) return true;  // no such file system here
  const std::size_t name_end = text.rfind(") ");
  return name_end == std::string::npos || (text[name_end + 2] != 'Z' && text[name_end + 2] != 'X');
}

Result<ProgramResult> run_program(const std::filesystem::path& program,
                                  const std::vector<std::string>& arguments, Millis limit) {
  auto child = spawn({.program = program, .args = arguments});
  if (!child) return std::unexpected(std::move(child).error());
  const MonotonicTime deadline = now() + limit;
  ProgramResult result;
  std::string why;
  char buffer[16 * 1024];
  bool open = true;
  std::optional<ExitStatus> ended;
  while (!ended) {
    if (Interrupt::raised())
      why = kCodeInterrupted;
    else if (now() > deadline)
      why = fmt::format("it took longer than {} s", limit.count() / 1000);
    else if (result.output.size() > kMaxProgramOutput)
      why = "it said more than 16 MiB";
    if (!why.empty()) {
      ::kill(-child->pid, SIGKILL);
      int status = 0;
      ::waitpid(child->pid, &status, 0);
      if (why == kCodeInterrupted) return std::unexpected(interrupted_error());
      return fail(ErrorKind::timeout, "program_stopped",
                  fmt::format("{} {} was stopped: {}", program.string(),
                              arguments.empty() ? "" : arguments.front(), why));
    }
    if (open) {
      if (!readable_soon(child->output.get())) continue;
      const ssize_t got = ::read(child->output.get(), buffer, sizeof buffer);
      if (got > 0) {
        result.output.append(buffer, static_cast<std::size_t>(got));
        continue;
      }
      if (got < 0 && errno == EINTR) continue;
      open = false;
    }
    ended = try_wait(child->pid);
    if (!ended) std::this_thread::sleep_for(Millis(5));
  }
  result.status = *ended;
  return result;
}

void use_utf8_locale() {
  ::setlocale(LC_CTYPE, "");
  if (std::string_view(::nl_langinfo(CODESET)) != "UTF-8") ::setlocale(LC_CTYPE, "C.UTF-8");
}

}  // namespace gezel::cli
