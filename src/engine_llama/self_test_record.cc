#include "engine_llama/self_test_record.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <mutex>

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

Result<json::object> run_self_test(const fs::path& engine_program) {
  GEZEL_TRY(Child child, spawn({.program = engine_program, .args = {"--self-test"}}));
  std::string output;
  char buffer[16 * 1024];
  ssize_t got = 0;
  while ((got = ::read(child.output.get(), buffer, sizeof buffer)) > 0 || (got < 0 && errno == EINTR)) {
    if (got > 0 && output.size() < kMaxOutputBytes) output.append(buffer, static_cast<std::size_t>(got));
  }
  int status = 0;
  while (::waitpid(child.pid, &status, 0) < 0 && errno == EINTR) {
  }
  // The report is one line; the library's own messages may stand before it.
  const std::size_t begin = output.find("{\"ok\"");
  auto value = begin == std::string::npos
                   ? parse_json("")
                   : parse_json(output.substr(begin, output.find('\n', begin) - begin));
  if (!value || !value->is_object()) {
    const ExitStatus end{WIFEXITED(status) ? WEXITSTATUS(status) : 0,
                         WIFSIGNALED(status) ? WTERMSIG(status) : 0};
    return fail(
        ErrorKind::unavailable, "engine-unusable",
        fmt::format(
            "the engine's self-test printed no report and ended with {}; `gezel doctor --deep` shows more",
            describe(end)));
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
                                                      const std::string& cpu_model) {
  // Two models that start together make one test.
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  if (const auto report = remembered(home, record_key(engine_program, cpu_model))) return failing(*report);
  log_info("self-testing the engine on this processor, once per build");
  GEZEL_TRY(const auto report, run_self_test(engine_program));
  if (const auto kept = remember_self_test(home, engine_program, cpu_model, report); !kept) {
    log_warn("the self-test's result cannot be kept", {{"reason", kept.error().message}});
  }
  return failing(report);
}

}  // namespace gezel::engine_llama
