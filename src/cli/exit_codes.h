// cli/exit_codes.h
//
// What the exit status of every command means. Scripts rely on it; `gezel --help` prints it.
#pragma once
#include "base/result.h"

namespace gezel::cli {

enum ExitCode : int {
  kOk = 0,
  kFailure = 1,
  kUsage = 2,        // the command line itself is wrong
  kUnreachable = 3,  // no daemon answers
  kNoSuchModel = 4,
  kInterrupted = 130,
};

// Codes of errors that are made here. Everything else comes from the API or a module.
inline constexpr std::string_view kCodeUsage = "usage";
inline constexpr std::string_view kCodeUnreachable = "daemon_unreachable";
inline constexpr std::string_view kCodeInterrupted = "interrupted";
inline constexpr std::string_view kCodeTimeout = "daemon_timeout";
inline constexpr std::string_view kCodeLost = "connection_lost";
inline constexpr std::string_view kCodeBadReply = "bad_reply";

ExitCode exit_code_for(const Error& error);

}  // namespace gezel::cli
