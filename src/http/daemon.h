// http/daemon.h
//
// The daemon from start to stop, in the order of spec 10 section 18.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "base/result.h"
#include "service/inference_service.h"

namespace gezel::http {

struct DaemonOptions {
  service::ServiceOptions service;
  std::optional<std::uint16_t>
      port;              // explicit: exactly that one, 0 = ephemeral; unset: 6228, else ephemeral
  bool no_auth = false;  // --no-auth: loopback only, said loudly
  bool shutdown_on_stdin_eof = false;
};

inline constexpr std::uint16_t kDefaultPort = 6228;

// Runs until a signal or POST /api/shutdown asks for the end. Returns the exit code: 0 for a requested stop,
// 1 for an error (which was printed as one readable message).
int run_daemon(const DaemonOptions& options);

}  // namespace gezel::http
