// spdlog does the writing; we decide the shape of a line, because JSON members and terminal text come from
// one call.
#include "base/log.h"

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <boost/json.hpp>
#include <memory>

#include "base/clock.h"

namespace gezel {
namespace {

struct Logging {
  std::shared_ptr<spdlog::logger> logger;
  bool json = false;
  bool colour = false;
};

// Logging is the one thing that is process-wide: a log call must work from anywhere, before and after main()
// set it up.
Logging& logging() {
  static Logging instance{
      std::make_shared<spdlog::logger>("gezel", std::make_shared<spdlog::sinks::stderr_sink_mt>()),
      isatty(STDERR_FILENO) == 0, isatty(STDERR_FILENO) != 0};
  static const bool prepared = [] {
    instance.logger->set_pattern("%v");
    instance.logger->flush_on(spdlog::level::info);
    return true;
  }();
  (void)prepared;
  return instance;
}

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::debug:
      return spdlog::level::debug;
    case LogLevel::info:
      return spdlog::level::info;
    case LogLevel::warn:
      return spdlog::level::warn;
    case LogLevel::error:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

constexpr std::string_view kNames[] = {"debug", "info", "warn", "error"};
constexpr std::string_view kColours[] = {"\033[2m", "\033[32m", "\033[33m", "\033[31m"};

}  // namespace

void setup_logging(const LogOptions& options) {
  Logging& log = logging();
  if (options.file.empty()) {
    log.logger = std::make_shared<spdlog::logger>("gezel", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  } else {
    log.logger = std::make_shared<spdlog::logger>(
        "gezel", std::make_shared<spdlog::sinks::basic_file_sink_mt>(options.file));
  }
  const bool terminal = options.file.empty() && isatty(STDERR_FILENO) != 0;
  log.json = options.format == LogFormat::json || (options.format == LogFormat::automatic && !terminal);
  log.colour = terminal && !log.json;
  log.logger->set_pattern("%v");
  log.logger->set_level(to_spdlog(options.level));
  log.logger->flush_on(spdlog::level::info);
}

void log(LogLevel level, std::string_view message, LogFields fields) {
  const Logging& log = logging();
  if (!log.logger->should_log(to_spdlog(level))) return;
  const std::string time = iso_time(std::chrono::system_clock::now());
  const auto index = static_cast<std::size_t>(level);
  if (log.json) {
    boost::json::object line{{"time", time}, {"level", kNames[index]}, {"message", message}};
    for (const auto& [key, value] : fields) line[key] = value;
    log.logger->log(to_spdlog(level), "{}", boost::json::serialize(line));
    return;
  }
  std::string line = fmt::format("{} {}{:5}{} {}", time.substr(11, 12), log.colour ? kColours[index] : "",
                                 kNames[index], log.colour ? "\033[0m" : "", message);
  for (const auto& [key, value] : fields) line += fmt::format(" {}={}", key, value);
  log.logger->log(to_spdlog(level), "{}", line);
}

}  // namespace gezel
