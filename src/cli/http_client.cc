// One asynchronous operation at a time on an event loop of its own, driven in short turns: between turns the
// clock and Ctrl-C are looked at, which blocking sockets would not allow.
#include "cli/http_client.h"

#include <fmt/format.h>

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

#include "cli/exit_codes.h"

namespace gezel::cli {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;

constexpr Millis kTurn{50};
constexpr Millis kConnectLimit{5'000};
constexpr std::uint32_t kMaxHeaders = 32 * 1024;

struct Outcome {
  error_code error;
  std::size_t bytes = 0;
  enum class End { done, interrupted, silent } end = End::done;
};

class Connection {
 public:
  Connection() : socket_(loop_) {}

  Outcome connect(std::uint16_t port) {
    return drive(kConnectLimit, {}, [&](auto handler) {
      socket_.async_connect({asio::ip::address_v4::loopback(), port},
                            [handler](error_code error) { handler(error, 0); });
    });
  }
  Outcome write(const std::string& text, Millis limit) {
    return drive(limit, {}, [&](auto handler) { asio::async_write(socket_, asio::buffer(text), handler); });
  }
  Outcome read(Millis limit, const std::function<void(Millis)>& on_wait) {
    return drive(limit, on_wait,
                 [&](auto handler) { socket_.async_read_some(asio::buffer(buffer_), handler); });
  }
  std::string_view bytes(std::size_t count) const { return {buffer_.data(), count}; }

 private:
  template <class Start>
  Outcome drive(Millis limit, const std::function<void(Millis)>& on_wait, Start start) {
    Outcome outcome;
    bool finished = false;
    // Looked at before each operation too: while data keeps coming, nothing below ever waits.
    if (Interrupt::raised()) return {.end = Outcome::End::interrupted};
    loop_.restart();
    start([&](error_code error, std::size_t bytes) {
      outcome.error = error;
      outcome.bytes = bytes;
      finished = true;
    });
    const auto begin = std::chrono::steady_clock::now();
    while (!finished) {
      loop_.run_one_for(kTurn);
      if (finished) break;
      const auto waited = std::chrono::duration_cast<Millis>(std::chrono::steady_clock::now() - begin);
      if (Interrupt::raised())
        outcome.end = Outcome::End::interrupted;
      else if (limit.count() > 0 && waited > limit)
        outcome.end = Outcome::End::silent;
      if (outcome.end != Outcome::End::done) {
        error_code ignored;
        socket_.close(ignored);
        while (!finished) loop_.run_one();  // the handler refers to this frame
        break;
      }
      if (on_wait) on_wait(waited);
    }
    return outcome;
  }

  asio::io_context loop_{1};
  asio::ip::tcp::socket socket_;
  std::array<char, 16 * 1024> buffer_;
};

std::unexpected<Error> problem(std::string_view code, std::string message) {
  ErrorKind kind = ErrorKind::unavailable;
  if (code == kCodeInterrupted) kind = ErrorKind::cancelled;
  if (code == kCodeTimeout) kind = ErrorKind::timeout;
  if (code == kCodeBadReply) kind = ErrorKind::corrupt;
  return fail(kind, std::string(code), std::move(message));
}

std::string head_of(const HttpRequest& request, std::uint16_t port, const std::string& token) {
  std::string head =
      fmt::format("{} {} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nConnection: close\r\nUser-Agent: gezel\r\n",
                  request.method, request.target, port);
  if (!token.empty()) head += fmt::format("Authorization: Bearer {}\r\n", token);
  if (!request.body.empty() || request.method == "POST") {
    head += fmt::format("Content-Type: application/json\r\nContent-Length: {}\r\n", request.body.size());
  }
  return head + "\r\n";
}

}  // namespace

HttpClient::HttpClient(std::uint16_t port, std::string token) : port_(port), token_(std::move(token)) {}

Result<HttpReply> HttpClient::send(const HttpRequest& request, const StreamHooks& hooks) const {
  Connection connection;
  const auto interrupted = [] { return problem(kCodeInterrupted, "interrupted"); };
  const auto silent = [&] {
    return problem(kCodeTimeout,
                   fmt::format("The daemon on port {} said nothing for {} s ({} {}). `gezel ps` shows "
                               "whether it is alive; its log is in <home>/logs",
                               port_, request.silence.count() / 1000, request.method, request.target));
  };

  const Outcome connected = connection.connect(port_);
  if (connected.end == Outcome::End::interrupted) return interrupted();
  if (connected.end == Outcome::End::silent || connected.error) {
    return problem(kCodeUnreachable,
                   fmt::format("No daemon answers on 127.0.0.1:{} ({})", port_,
                               connected.error ? connected.error.message() : "no reply in 5 s"));
  }
  // A daemon that refuses a large body answers before it has read it, so a failed write still has a reply to
  // read.
  const Outcome written = connection.write(head_of(request, port_, token_) + request.body, request.silence);
  if (written.end == Outcome::End::interrupted) return interrupted();
  if (written.end == Outcome::End::silent) return silent();

  http::response_parser<http::string_body> parser;
  parser.header_limit(kMaxHeaders);
  parser.body_limit(boost::none);  // checked below: a stream has no end, a reply has
  parser.eager(true);
  std::string pending;  // received but not yet taken by the parser
  bool streaming = false;
  HttpReply reply;
  while (!parser.is_done()) {
    const Outcome got = connection.read(request.silence, hooks.on_wait);
    if (got.end == Outcome::End::interrupted) return interrupted();
    if (got.end == Outcome::End::silent) return silent();
    error_code error;
    if (got.error == asio::error::eof && got.bytes == 0) {
      if (parser.got_some()) parser.put_eof(error);
      if (error || !parser.is_header_done()) {
        return problem(kCodeLost,
                       "The daemon closed the connection in the middle of its answer. `gezel ps` shows "
                       "whether it still runs; its log is in <home>/logs");
      }
      break;
    }
    if (got.error) {
      return problem(kCodeLost, fmt::format("The connection to the daemon broke: {}", got.error.message()));
    }
    pending += connection.bytes(got.bytes);
    while (!pending.empty() && !parser.is_done()) {
      const std::size_t used = parser.put(asio::buffer(pending), error);
      pending.erase(0, used);
      if (error && error != http::error::need_more) {
        return problem(kCodeBadReply,
                       fmt::format("What answers on 127.0.0.1:{} does not speak HTTP ({}); is another "
                                   "program on that port?",
                                   port_, error.message()));
      }
      if (error || used == 0) break;
    }
    if (!parser.is_header_done()) continue;
    if (reply.status == 0) {
      reply.status = parser.get().result_int();
      reply.content_type = parser.get()[http::field::content_type];
      streaming =
          hooks.on_piece && reply.status == 200 && reply.content_type.starts_with("text/event-stream");
    }
    std::string& body = parser.get().body();
    if (streaming) {
      const std::string piece = std::exchange(body, {});
      if (!piece.empty() && !hooks.on_piece(piece)) return reply;
    } else if (body.size() > kMaxReply) {
      return problem(kCodeBadReply,
                     fmt::format("The daemon's reply is larger than {}", format_bytes(kMaxReply)));
    }
  }
  if (!streaming) reply.body = std::move(parser.get().body());
  return reply;
}

}  // namespace gezel::cli
