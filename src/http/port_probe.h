// http/port_probe.h
//
// Who holds the port that we wanted? Only for a log line: another daemon of ours would compete for the
// engines.
#pragma once
#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <string_view>

#include "base/clock.h"

namespace gezel::http {

namespace asio = boost::asio;

enum class Occupant { gezel, foreign, unknown };

// Reads what the occupant answers to GET /health: ours, another HTTP server's, or neither.
Occupant classify_occupant(std::string_view answer);

// Asks 127.0.0.1:port, for at most `budget` and the first 4,096 bytes.
asio::awaitable<Occupant> probe_port(std::uint16_t port, Millis budget = Millis(3'000));

}  // namespace gezel::http
