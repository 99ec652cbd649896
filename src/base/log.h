// base/log.h
//
// Logging: readable by a person on a terminal, one JSON object a line otherwise. The daemon and the worker
// set it up once in main(); everything else calls log_info() and friends.
#pragma once
#include <fmt/format.h>

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace gezel {

enum class LogLevel { debug, info, warn, error };
enum class LogFormat { automatic, text, json };  // automatic: text when stderr is a terminal

struct LogOptions {
  LogFormat format = LogFormat::automatic;
  LogLevel level = LogLevel::info;
  std::string file;  // empty: standard error
};

void setup_logging(const LogOptions& options);

// `fields` become JSON members, or " key=value" on a terminal. Text never contains prompts, replies or
// secrets.
using LogFields = std::initializer_list<std::pair<std::string_view, std::string>>;
void log(LogLevel level, std::string_view message, LogFields fields = {});

inline void log_debug(std::string_view message, LogFields fields = {}) {
  log(LogLevel::debug, message, fields);
}
inline void log_info(std::string_view message, LogFields fields = {}) {
  log(LogLevel::info, message, fields);
}
inline void log_warn(std::string_view message, LogFields fields = {}) {
  log(LogLevel::warn, message, fields);
}
inline void log_error(std::string_view message, LogFields fields = {}) {
  log(LogLevel::error, message, fields);
}

}  // namespace gezel
