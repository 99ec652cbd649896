#include "http/listener.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <list>

#include "base/log.h"
#include "http/connection.h"
#include "http/wire.h"

namespace gezel::http {
namespace {

using asio::ip::tcp;
using boost::system::error_code;
using std::chrono::steady_clock;

constexpr auto kQuietly = asio::as_tuple(asio::use_awaitable);
// After accept() failed for want of descriptors or memory.
constexpr Millis kAcceptPause{100};
// How long dropped connections get to leave their handlers.
constexpr Millis kDropTime{1'000};

error_code listen_on(tcp::acceptor& acceptor, std::uint16_t port) {
  error_code error;
  acceptor.open(tcp::v4(), error);
  // A port in the last wait of an earlier daemon's connections may be taken again; one that is listened on
  // may not.
  if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor.bind({asio::ip::address_v4::loopback(), port}, error);
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (error) {
    error_code ignored;
    acceptor.close(ignored);
  }
  return error;
}

class SocketListener final : public Listener {
 public:
  SocketListener(tcp::acceptor acceptor, bool fell_back, ConnectionContext context)
      : state_(std::make_shared<State>(std::move(acceptor), std::move(context))), fell_back_(fell_back) {}
  ~SocketListener() override { state_->stop(); }

  std::uint16_t port() const override { return state_->port; }
  bool fell_back() const override { return fell_back_; }
  std::size_t connections() const override { return state_->connections.size(); }
  void stop_accepting() override { state_->stop(); }

  void start() override {
    asio::co_spawn(state_->acceptor.get_executor(), accept_loop(state_), asio::detached);
  }

  asio::awaitable<void> close(Millis grace) override {
    const auto state = state_;
    state->stop();
    state->each([](Connection& connection) { connection.finish(); });
    co_await state->wait_until_empty(grace);
    state->each([](Connection& connection) { connection.drop(); });
    co_await state->wait_until_empty(kDropTime);
  }

 private:
  // Outlives the listener while connections end.
  struct State {
    State(tcp::acceptor opened, ConnectionContext shared)
        : acceptor(std::move(opened)),
          context(std::move(shared)),
          changed(acceptor.get_executor()),
          pause(acceptor.get_executor()) {
      error_code ignored;
      port = acceptor.local_endpoint(ignored).port();
    }

    void stop() {
      error_code ignored;
      acceptor.close(ignored);
      pause.cancel();
    }

    template <class F>
    void each(F act) {
      // A connection may leave the list while it is acted on.
      const auto copy = connections;
      for (const auto& connection : copy) act(*connection);
    }

    asio::awaitable<void> wait_until_empty(Millis limit) {
      const auto deadline = steady_clock::now() + limit;
      while (!connections.empty() && steady_clock::now() < deadline) {
        changed.expires_at(deadline);
        co_await changed.async_wait(kQuietly);
      }
    }

    bool has_room() const { return connections.size() < context.limits.connections; }

    // Closes the oldest idle connection. False: all are busy.
    bool make_room() {
      std::shared_ptr<Connection> oldest;
      for (const auto& connection : connections) {
        if (connection->idle() && (!oldest || connection->idle_since() < oldest->idle_since()))
          oldest = connection;
      }
      if (!oldest) return false;
      connections.remove(oldest);
      oldest->drop();
      return true;
    }

    tcp::acceptor acceptor;
    ConnectionContext context;
    std::uint16_t port = 0;
    std::list<std::shared_ptr<Connection>> connections;
    asio::steady_timer changed;  // cancelled when a connection ends
    asio::steady_timer pause;
  };

  static asio::awaitable<void> accept_loop(std::shared_ptr<State> state) {
    while (state->acceptor.is_open()) {
      auto [error, socket] = co_await state->acceptor.async_accept(kQuietly);
      if (!state->acceptor.is_open()) break;
      if (error == asio::error::no_descriptors && state->make_room()) {
        // Its descriptor is free now; the waiting connection is accepted next.
      } else if (error) {
        log_warn("a connection could not be accepted", {{"reason", error.message()}});
        state->pause.expires_after(kAcceptPause);
        co_await state->pause.async_wait(kQuietly);
      } else if (!state->has_room() && !state->make_room()) {
        refuse(*state, std::move(socket));
      } else {
        serve(state, std::move(socket));
      }
    }
  }

  static void serve(const std::shared_ptr<State>& state, tcp::socket socket) {
    const auto connection = std::make_shared<Connection>(std::move(socket), state->context);
    state->connections.push_back(connection);
    asio::co_spawn(
        state->acceptor.get_executor(), [connection] { return connection->serve(); },
        [state, connection](const std::exception_ptr& thrown) {
          if (thrown) {
            log_error("a connection ended by an exception");
            connection->drop();
          }
          state->connections.remove(connection);
          state->changed.cancel();
        });
  }

  // Every connection is busy: say so and close, without waiting for the request.
  static void refuse(State& state, tcp::socket socket) {
    api::ApiError error;
    error.status = 429;
    error.type = "rate_limit_error";
    error.code = "slow_down";
    error.message =
        fmt::format("all {} connections are busy; try again shortly", state.context.limits.connections);
    error.retry_after_s = 1;
    Reply reply = state.context.router.connection_error(error);
    reply.headers.emplace_back("content-length", std::to_string(reply.body.size()));
    reply.headers.emplace_back("connection", "close");
    error_code ignored;
    socket.non_blocking(true, ignored);
    socket.write_some(asio::buffer(response_head(reply.status, reply.headers) + reply.body), ignored);
    socket.shutdown(tcp::socket::shutdown_both, ignored);
  }

  std::shared_ptr<State> state_;
  bool fell_back_;
};

}  // namespace

Result<std::unique_ptr<Listener>> Listener::bind(asio::any_io_executor loop,
                                                 std::optional<std::uint16_t> port, std::uint16_t preferred,
                                                 Router& router, OpenRequests& open, const Clock& clock,
                                                 ListenerLimits limits) {
  tcp::acceptor acceptor(loop);
  const std::uint16_t wanted = port.value_or(preferred);
  error_code error = listen_on(acceptor, wanted);
  const bool fall_back = error && !port;
  if (fall_back) error = listen_on(acceptor, 0);
  if (error == asio::error::address_in_use) {
    return fail(
        ErrorKind::conflict, "port_in_use",
        fmt::format("port {} on 127.0.0.1 is taken by another program; stop that program, or choose another "
                    "port with --port (0 = any free one)",
                    wanted),
        "port");
  }
  if (error) {
    return fail(ErrorKind::io, "listen_failed",
                fmt::format("cannot listen on port {} of 127.0.0.1: {}", wanted, error.message()), "port");
  }
  return std::make_unique<SocketListener>(std::move(acceptor), fall_back,
                                          ConnectionContext{router, open, clock, limits});
}

}  // namespace gezel::http
