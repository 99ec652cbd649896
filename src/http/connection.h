// http/connection.h
//
// One client connection: reads requests within the limits, lets the router answer them, notices when the
// client goes away. Internal to the listener.
//
// The end of what a client sends (a FIN) is not the end of the client: `nc -N` and scripts that shut down
// their sending side still read the answer, while a client that was aborted closed its socket, and on the
// wire both look the same. What tells them apart is what comes back: data for a closed socket is answered by
// a reset. So when the FIN arrives, the bytes that the answer must have next in any case are sent ahead (the
// protocol version, or a leading zero of a chunk's size). Nobody who reads sees a difference, and whoever is
// gone says so at once.
#pragma once
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <memory>

#include "http/listener.h"

namespace gezel::http {

// What all connections of a listener share.
struct ConnectionContext {
  Router& router;
  OpenRequests& open;
  const Clock& clock;
  ListenerLimits limits;
};

class SocketResponse;

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using Time = std::chrono::steady_clock::time_point;

  Connection(asio::ip::tcp::socket socket, const ConnectionContext& context);

  // Serves requests until the connection ends.
  asio::awaitable<void> serve();

  // No request is being answered.
  bool idle() const { return idle_; }
  Time idle_since() const { return idle_since_; }
  // Ends the connection now, or after the running answer.
  void finish();
  // Drops the connection; a running handler learns that its client is gone.
  void drop();

 private:
  friend class SocketResponse;
  friend class SocketBody;
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;
  enum class Outcome { ok, closed, timeout, too_large, headers_too_large, malformed };

  asio::awaitable<bool> serve_one();
  asio::awaitable<Outcome> read_head(Parser& parser);
  // How fast a body came so far.
  struct BodyPace {
    Time begin;
    std::uint64_t arrived = 0;
  };
  asio::awaitable<Outcome> read_body(Parser& parser);
  // More of the body into the parser; ok also when there was nothing to wait for.
  asio::awaitable<Outcome> read_body_piece(Parser& parser, BodyPace& pace);
  // The error that a client gets for what became of its request; `body_limit` as its route has it.
  api::ApiError error_of(Outcome outcome, std::uint64_t body_limit) const;
  // Appends to the buffer. ok, closed or timeout.
  asio::awaitable<Outcome> read_more(std::size_t bytes, Time deadline);
  asio::awaitable<void> answer(Admission admission, api::Request request, const Parser& parser);
  asio::awaitable<bool> answer_stream(Admission admission, api::Request request, Parser& parser);
  asio::awaitable<void> refuse(Outcome outcome, std::uint64_t body_limit);
  asio::awaitable<void> refuse(Reply reply, bool unread);
  asio::awaitable<void> drain();
  asio::awaitable<bool> write_all(std::string bytes);

  // Watching the socket for the client's end while a handler runs.
  void watch();
  void on_watched(boost::system::error_code error, std::size_t count);
  void on_gone();
  // Sends what a suspended answer will begin with. Returns how many bytes left.
  std::size_t send_ahead(std::string_view bytes);
  asio::awaitable<void> stop_watching();
  void on_cancel(std::function<void(api::CancelReason)> on_cancel);
  void cancel(api::CancelReason reason);

  void arm(Time deadline);
  void disarm();

  asio::ip::tcp::socket socket_;
  const ConnectionContext& context_;
  boost::beast::flat_buffer buffer_;
  asio::steady_timer deadline_;
  std::uint64_t armed_ = 0;  // tells a late expiry from the current one
  bool timed_out_ = false;

  bool idle_ = true;
  Time idle_since_;
  bool fresh_ = true;     // no request has arrived yet
  bool last_ = false;     // the running answer is the last
  bool gone_ = false;     // the client is gone, or we dropped it
  bool ended_ = false;    // the client sends nothing more; it may still read
  bool writing_ = false;  // bytes of an answer wait for the socket

  bool reading_body_ = false;            // for a handler that waits for more of it
  SocketResponse* answering_ = nullptr;  // while a handler runs
  bool watching_ = false, watch_ends_ = false;
  asio::cancellation_signal watch_cancel_;
  asio::steady_timer watch_done_;
  std::function<void(api::CancelReason)> on_cancel_;
  std::optional<api::CancelReason> cancelled_;
};

}  // namespace gezel::http
