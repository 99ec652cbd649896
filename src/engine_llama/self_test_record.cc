#include "engine_llama/self_test_record.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <mutex>
#include <optional>

#include "base/files.h"
#include "base/log.h"
#include "base/process.h"
#include "engine/quarantine.h"

namespace gezel::engine_llama {
namespace {

constexpr int kVersion = 1;
constexpr Bytes kMaxRecordBytes = 4 * kMiB;
constexpr Bytes kMaxOutputBytes = 4 * kMiB;

fs::path record_path(const fs::path& home) {
  return home / "engines" / "embedded" / "self-test.json";
}

// Another build, or another processor, is another verdict.
std::string record_key(const fs::path& engine_program, const std::string& cpu_model) {
  return fmt::format("{} {}", engine::fingerprint_file(engine_program), cpu_model);
}

std::vector<std::string> failing(const json::object& report) {
  std::vector<std::string> out;
  if (const auto* names = array_at(report, "failing_buffer_types")) {
    for (const auto& name : *names) {
      if (name.is_string()) out.emplace_back(name.get_string());
    }
  }
  return out;
}

// The report of an earlier run, or nothing: absent, damaged, of another build or processor.
std::optional<json::object> remembered(const fs::path& home, const std::string& key) {
  const auto text = read_file(record_path(home), kMaxRecordBytes);
  if (!text) return std::nullopt;
  auto value = parse_json(*text);
  if (!value || !value->is_object()) return std::nullopt;
  const auto& record = value->get_object();
  const auto* report = object_at(record, "report");
  if (int_or(record, "version", 0) != kVersion || string_or(record, "key") != key || report == nullptr)
    return std::nullopt;
  return *report;
}

class Deadline {
 public:
  Deadline(Millis limit, const std::stop_token& stop)
      : end_(clock_.now() + limit), stop_(stop), signal_(stop) {}
  // For poll(): whole milliseconds, 0 when it is over, also because nobody waits any more.
  int left() const {
    if (stop_.stop_requested()) return 0;
    const auto rest = std::chrono::ceil<Millis>(end_ - clock_.now());
    return static_cast<int>(std::clamp<std::int64_t>(rest.count(), 0, kMaxPoll));
  }
  int stop_fd() const { return signal_.fd(); }  // wakes a poll()

 private:
  static constexpr std::int64_t kMaxPoll = 3'600'000;
  SystemClock clock_;
  MonotonicTime end_;
  std::stop_token stop_;
  StopSignal signal_;
};

// Everything the child prints until it closes its output; false when the deadline came first.
bool read_output(int fd, const Deadline& deadline, std::string& output) {
  char buffer[16 * 1024];
  while (true) {
    pollfd ready[] = {{.fd = fd, .events = POLLIN, .revents = 0},
                      {.fd = deadline.stop_fd(), .events = POLLIN, .revents = 0}};
    const int count = ::poll(ready, 2, deadline.left());
    if (count == 0) return false;
    if (count < 0) {
      if (errno == EINTR) continue;
      return false;
    }
    if (ready[0].revents == 0) return false;
    const ssize_t got = ::read(fd, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return true;
    if (output.size() < kMaxOutputBytes) output.append(buffer, static_cast<std::size_t>(got));
    // A child that never stops printing is always readable.
    if (deadline.left() == 0) return false;
  }
}

// The child's end; nothing when the deadline came first. A closed output does not mean that it ended.
std::optional<int> wait_for_end(pid_t pid, const Deadline& deadline) {
  constexpr int kPoll = 10;
  while (true) {
    int status = 0;
    const pid_t ended = ::waitpid(pid, &status, WNOHANG);
    if (ended == pid) return status;
    if ((ended < 0 && errno != EINTR) || deadline.left() == 0) return std::nullopt;
    ::poll(nullptr, 0, std::min(kPoll, deadline.left()));
  }
}

std::unexpected<Error> nobody_waits() {
  return fail(ErrorKind::cancelled, "cancelled",
              "the engine's self-test was given up: the service is ending");
}

Result<json::object> run_self_test(const fs::path& engine_program, Millis limit,
                                   const std::stop_token& stop) {
  if (stop.stop_requested()) return nobody_waits();
  const Deadline deadline(limit, stop);
  GEZEL_TRY(const Child child, spawn({.program = engine_program,
                                      .args = {"--self-test"},
                                      .env_drop = {"LLAMA_*", "GGML_*"}}));  // they change what is tested
  std::string output;
  std::optional<int> end;
  if (read_output(child.output.get(), deadline, output)) end = wait_for_end(child.pid, deadline);
  if (!end) {
    ::kill(-child.pid, SIGKILL);  // with whatever it started
    while (::waitpid(child.pid, nullptr, 0) < 0 && errno == EINTR) {
    }
    if (stop.stop_requested()) return nobody_waits();
    return fail(ErrorKind::unavailable, "engine-unusable",
                fmt::format("the engine's self-test did not end within {} s and was killed; an overloaded "
                            "machine is the usual reason, `gezel doctor --deep` runs it again",
                            limit / Millis(1000)));
  }
  const int status = *end;
  // The report is one line; the library's own messages may stand before it.
  const std::size_t begin = output.find("{\"ok\"");
  auto value = begin == std::string::npos
                   ? parse_json("")
                   : parse_json(output.substr(begin, output.find('\n', begin) - begin));
  if (!value || !value->is_object()) {
    const ExitStatus ended{WIFEXITED(status) ? WEXITSTATUS(status) : 0,
                           WIFSIGNALED(status) ? WTERMSIG(status) : 0};
    return fail(
        ErrorKind::unavailable, "engine-unusable",
        fmt::format(
            "the engine's self-test printed no report and ended with {}; `gezel doctor --deep` shows more",
            describe(ended)));
  }
  return std::move(value->get_object());
}

}  // namespace

Result<> remember_self_test(const fs::path& home, const fs::path& engine_program,
                            const std::string& cpu_model, const json::object& report) {
  GEZEL_CHECK(make_private_folder(record_path(home).parent_path()));
  const json::object record{
      {"version", kVersion}, {"key", record_key(engine_program, cpu_model)}, {"report", report}};
  return write_file_atomic(record_path(home), to_json(record) + "\n");
}

Result<std::vector<std::string>> failing_buffer_types(const fs::path& home, const fs::path& engine_program,
                                                      const std::string& cpu_model, Millis limit,
                                                      const std::stop_token& stop) {
  // Two models that start together make one test.
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  if (const auto report = remembered(home, record_key(engine_program, cpu_model))) return failing(*report);
  log_info("self-testing the engine on this processor, once per build");
  GEZEL_TRY(const auto report, run_self_test(engine_program, limit, stop));
  if (const auto kept = remember_self_test(home, engine_program, cpu_model, report); !kept) {
    log_warn("the self-test's result cannot be kept", {{"reason", kept.error().message}});
  }
  return failing(report);
}

}  // namespace gezel::engine_llama
