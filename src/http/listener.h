// http/listener.h
//
// The main listener: plain HTTP/1.1 on 127.0.0.1, one coroutine per connection, everything on the one event
// loop (spec 10 sections 1.1, 1.2 and 3.2a). Requests on one connection are answered in order; pipelined ones
// wait in a bounded buffer.
#pragma once
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/result.h"
#include "http/open_requests.h"
#include "http/router.h"

namespace gezel::http {

struct ListenerLimits {
  std::size_t header_bytes = 32 * kKiB;
  std::size_t header_fields = 100;
  Millis header_wait{
      10'000};  // from the first byte of a request (of a new connection: from its start) to its last header
  Millis body_stall{30'000};  // without a byte of the body
  // However steadily it comes, after `body_grace` a body must have averaged so many bytes per second since.
  Millis body_grace{30'000};
  std::uint64_t body_rate_bytes = 1 * kKiB;
  Millis write_stall{60'000};  // bytes wait and the socket takes none: the client does not read, and is cut
  Millis keep_alive{75'000};       // between two requests
  std::size_t connections = 1024;  // then the oldest idle one is closed
  // After an answer that leaves part of the request unread the rest is read and dropped, so that the answer
  // is not lost to a reset; at most this much, for at most this long.
  std::size_t drain_bytes = 128 * kMiB;
  Millis drain_time{5'000};
};

class Listener {
 public:
  // Binds 127.0.0.1. `port` is taken as it is (0 = any free one); without one `preferred` is tried and, when
  // it is taken, a free one is used. Error `port_in_use` names the port and the remedy.
  static Result<std::unique_ptr<Listener>> bind(asio::any_io_executor loop, std::optional<std::uint16_t> port,
                                                std::uint16_t preferred, Router& router, OpenRequests& open,
                                                const Clock& clock, ListenerLimits limits = {});
  virtual ~Listener() = default;

  virtual std::uint16_t port() const = 0;
  virtual bool fell_back() const = 0;  // `preferred` was taken
  virtual void start() = 0;
  virtual void stop_accepting() = 0;
  // Stops accepting, closes idle connections at once and the others when their answer is complete, at the
  // latest after `grace`. Returns when all are gone.
  virtual asio::awaitable<void> close(Millis grace) = 0;
  virtual std::size_t connections() const = 0;
};

}  // namespace gezel::http
