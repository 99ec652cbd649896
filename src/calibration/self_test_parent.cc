// The parent never runs a kernel. A first child lists what there is to test; a second one works through the
// list, announcing each combination before it starts and printing each result as soon as it is there. When it
// dies, the combination announced last is to blame: it is recorded and a new child continues behind it. So a
// healthy machine costs two processes, and every broken kernel one more.
#include "calibration/self_test.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <csignal>
#include <functional>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/process.h"
#include "calibration/explain.h"
#include "calibration/product.h"

namespace gezel::calibration {
namespace {

constexpr const char* kChildFlag = "--self-test-child";
// A combination takes some milliseconds; a child that says nothing for so long hangs.
constexpr Millis kSilenceLimit{20'000};
// Far more than the lines of a whole run.
constexpr std::size_t kMostOutput = 8 * kMiB;
constexpr std::size_t kMostCombinations = 2'000;

struct ChildEnd {
  ExitStatus status;
  bool silent = false;  // killed for saying nothing
};

// Runs the child and hands each JSON line of its output to `on_line`; other output (of libraries) is dropped.
Result<ChildEnd> run_child(const std::string& program, const std::vector<std::string>& arguments,
                           const std::function<void(const json::object&)>& on_line) {
  SpawnOptions options;
  options.program = program;
  options.args = {kChildFlag};
  options.args.insert(options.args.end(), arguments.begin(), arguments.end());
  GEZEL_TRY(Child child, spawn(options));
  ChildEnd end;
  std::string pending;
  std::size_t total = 0;
  for (;;) {
    pollfd waiting{.fd = child.output.get(), .events = POLLIN, .revents = 0};
    const int ready = ::poll(&waiting, 1, static_cast<int>(kSilenceLimit.count()));
    if (ready < 0 && errno == EINTR) continue;
    char buffer[4096];
    const ssize_t got = ready > 0 ? ::read(child.output.get(), buffer, sizeof buffer) : -1;
    if (got < 0 && ready > 0 && errno == EINTR) continue;
    if (got == 0) break;
    total += got > 0 ? static_cast<std::size_t>(got) : 0;
    if (got < 0 || total > kMostOutput) {
      end.silent = true;
      ::kill(child.pid, SIGKILL);
      break;
    }
    pending.append(buffer, static_cast<std::size_t>(got));
    for (auto newline = pending.find('\n'); newline != std::string::npos; newline = pending.find('\n')) {
      if (pending.starts_with('{')) {
        const auto line = parse_json(std::string_view(pending).substr(0, newline));
        if (line && line->is_object()) on_line(line->as_object());
      }
      pending.erase(0, newline + 1);
    }
  }
  int status = 0;
  while (::waitpid(child.pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFSIGNALED(status)) {
    end.status.signal = WTERMSIG(status);
  } else {
    end.status.code = WEXITSTATUS(status);
  }
  return end;
}

std::string judge(double error, double bound) {
  if (std::isfinite(error) && error <= bound) return {};
  if (!std::isfinite(error)) return fmt::format("a result is not a number; the error may be {:g}", bound);
  return fmt::format("error {:.3g} above {:g}", error, bound);
}

SelfTestRow failed_row(const Combination& combination, std::string failure) {
  return {.backend = combination.backend,
          .buffer_type = combination.buffer_type,
          .type = combination.type,
          .rows = 0,
          .max_error = 0,
          .micros = 0,
          .ok = false,
          .failure = std::move(failure)};
}

// What the child announced and found, as its lines arrive.
struct Progress {
  std::vector<SelfTestRow>* rows;
  std::optional<Combination> current;
  std::size_t started = 0;

  void take(const json::object& line) {
    if (const auto begin = string_or(line, "begin"); !begin.empty()) {
      current = Combination::parse(begin);
      ++started;
    } else if (line.contains("rows") && current) {
      // Infinity is no JSON number: the child leaves the error out.
      const double error = number_or(line, "max_error", INFINITY);
      SelfTestRow row{.backend = current->backend,
                      .buffer_type = current->buffer_type,
                      .type = current->type,
                      .rows = static_cast<int>(int_or(line, "rows", 0)),
                      .max_error = error,
                      .micros = number_or(line, "micros", 0),
                      .ok = false,
                      .failure = judge(error, error_bound(current->type))};
      row.ok = row.failure.empty();
      rows->push_back(std::move(row));
    } else if (const auto failure = string_or(line, "error"); !failure.empty() && current) {
      rows->push_back(failed_row(*current, failure));
    } else if (line.contains("end")) {
      current.reset();
    }
  }
};

}  // namespace

Result<SelfTestReport> run_self_test(const std::string& program) {
  SelfTestReport report;
  std::vector<std::string> todo;
  std::string features;
  GEZEL_TRY(const ChildEnd listing, run_child(program, {kChildListCommand}, [&](const json::object& line) {
              if (const auto name = string_or(line, "combination"); !name.empty()) todo.push_back(name);
              if (line.contains("features")) features = string_or(line, "features");
            }));
  if (listing.status.signal != 0 || listing.status.code != 0 || listing.silent || todo.empty()) {
    report.rows.push_back(
        failed_row({"CPU", "CPU", "*"}, listing.silent ? "no answer while starting the backends"
                                                       : explain_end(listing.status, "CPU", features)));
    return report;
  }
  if (todo.size() > kMostCombinations) todo.resize(kMostCombinations);
  while (!todo.empty()) {
    Progress progress{.rows = &report.rows};
    GEZEL_TRY(const ChildEnd end,
              run_child(program, todo, [&](const json::object& line) { progress.take(line); }));
    const bool complete = progress.started == todo.size() && !progress.current;
    if (complete) break;
    if (!progress.current) {
      return fail(
          ErrorKind::internal, "self_test_failed",
          fmt::format("The self-test's child ended between two combinations: {}.", describe(end.status)));
    }
    report.rows.push_back(failed_row(
        *progress.current, end.silent ? fmt::format("no answer for {} s", kSilenceLimit.count() / 1000)
                                      : explain_end(end.status, progress.current->buffer_type, features)));
    todo.erase(todo.begin(), todo.begin() + static_cast<std::ptrdiff_t>(progress.started));
  }
  return report;
}

}  // namespace gezel::calibration
