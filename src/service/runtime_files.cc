#include "service/runtime_files.h"

#include <fmt/format.h>

#include <charconv>

#include "base/clock.h"
#include "base/temporary_files.h"
#include "service/os.h"

namespace gezel::service {
namespace {

constexpr std::string_view kServiceRole = "user";
constexpr Bytes kMaxRuntimeFile = 4 * kKiB;

template <class Number>
std::optional<Number> parse_number(const Result<std::string>& text) {
  if (!text) return std::nullopt;
  std::string_view digits = *text;
  if (digits.ends_with('\n')) digits.remove_suffix(1);
  Number number{};
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || end != digits.data() + digits.size() || number <= 0) return std::nullopt;
  return number;
}

std::unexpected<Error> unreadable(const Error& error) {
  return fail(error.kind, "home_unreadable",
              fmt::format("cannot read {}; give this user access to it, or set GEZEL_HOME (or --home) to "
                          "another folder",
                          error.message));
}

void remove_file(const fs::path& path) {
  std::error_code ignored;
  fs::remove(path, ignored);
}

}  // namespace

Result<> write_runtime_files(const fs::path& home, std::uint16_t port, const std::string& client_token) {
  const fs::path folder = home / "runtime";
  GEZEL_CHECK(make_private_folder(folder));
  // A port of an earlier daemon must not lead anyone to files that are only half ours.
  remove_file(folder / "port");
  remove_file(folder / "cert.pem");
  remove_file(folder / "cert-fingerprint");
  GEZEL_CHECK(write_file_exclusive(folder / "auth-token", client_token));
  GEZEL_CHECK(write_file_atomic(folder / "pid", fmt::format("{}\n", own_pid()), 0600, false));
  GEZEL_CHECK(write_file_atomic(folder / "service-role", fmt::format("{}\n", kServiceRole), 0600, false));
  return write_file_atomic(folder / "port", fmt::format("{}\n", port), 0600, false);
}

void remove_runtime_files(const fs::path& home) {
  // The reverse of how they were written: what others look for goes first.
  for (const char* name : {"port", "service-role", "pid", "auth-token"}) remove_file(home / "runtime" / name);
}

void remove_leftovers(const fs::path& home) {
  const auto before = fs::file_time_type::clock::now() - std::chrono::hours(1);
  for (const fs::path& folder : {home, home / "runtime", home / "engines" / "llama-cpp"})
    remove_old_temporaries(folder, before);
}

Result<DaemonAddress> find_daemon(const fs::path& home) {
  const fs::path folder = home / "runtime";
  const auto port_text = read_file(folder / "port", kMaxRuntimeFile);
  const auto pid_text = read_file(folder / "pid", kMaxRuntimeFile);
  const auto token = read_file(folder / "auth-token", kMaxRuntimeFile);
  for (const auto& [name, text] :
       {std::pair{"port", &port_text}, {"pid", &pid_text}, {"auth-token", &token}}) {
    if (!*text && text->error().kind == ErrorKind::denied) {
      return unreadable(
          {ErrorKind::denied, "", fmt::format("{}: permission denied", (folder / name).string())});
    }
  }
  const auto port = parse_number<std::uint16_t>(port_text);
  const auto pid = parse_number<int>(pid_text);
  const auto stamp = stamp_file(folder / "pid");
  const auto written = [&] {
    return WallTime(
        std::chrono::duration_cast<WallTime::duration>(std::chrono::nanoseconds(stamp->mtime_ns)));
  };
  // Files of a daemon that was killed stay behind; their pid tells.
  if (!port || !pid || !token || token->empty() || !stamp || !writer_may_live(*pid, written())) {
    return fail(ErrorKind::unavailable, "daemon_unreachable",
                fmt::format("no gezel daemon runs on {}; start one with `gezel serve`", home.string()));
  }
  return DaemonAddress{*port, *token, *pid};
}

Result<fs::path> default_home(const char* gezel_home, const char* home,
                              const std::optional<std::string>& user_folder) {
  if (gezel_home != nullptr && *gezel_home != '\0') return fs::absolute(gezel_home).lexically_normal();
  if (home != nullptr && *home != '\0') return fs::path(home) / ".gezel";
  if (user_folder) return fs::path(*user_folder) / ".gezel";
  return fail(ErrorKind::not_found, "no_home",
              "there is no place for models and keys: HOME is not set and this user has no home folder; set "
              "GEZEL_HOME (or --home) to a folder");
}

Result<> check_home(const fs::path& home) {
  for (const fs::path& folder : {home, home / "runtime", home / "engines" / "llama-cpp" / "models"}) {
    if (const auto checked = check_folder(folder); !checked) return unreadable(checked.error());
  }
  return {};
}

}  // namespace gezel::service
