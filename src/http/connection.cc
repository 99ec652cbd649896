// The parser is fed by hand rather than through Beast's async_read: each wait then has its own limit, and
// what follows a request in the buffer (a pipelined one) stays there for the next.
#include "http/connection.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "http/os.h"
#include "http/routes.h"
#include "http/wire.h"

namespace gezel::http {
namespace {

namespace beast = boost::beast;
using boost::system::error_code;
using std::chrono::steady_clock;

constexpr auto kQuietly = asio::as_tuple(asio::use_awaitable);
constexpr std::size_t kHeadPiece = 4 * kKiB;
constexpr std::size_t kBodyPiece = 64 * kKiB;
// Requests that a client sends before it has read the answer: more than this waits in the kernel.
constexpr std::size_t kPipelined = 64 * kKiB;
// What every answer begins with.
constexpr std::string_view kVersion = "HTTP/1.1 ";
// A refused request with a body up to this is read to its end, so that the connection stays usable.
constexpr std::uint64_t kSkippedBody = 64 * kKiB;

bool is_letter(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

double seconds(Millis time) {
  return std::chrono::duration<double>(time).count();
}

char first_byte(const beast::flat_buffer& buffer) {
  return *static_cast<const char*>(buffer.data().data());
}

// Some clients end a body with one line end too many (RFC 9112 section 2.2).
void skip_line_ends(beast::flat_buffer& buffer) {
  while (buffer.size() > 0 && (first_byte(buffer) == '\r' || first_byte(buffer) == '\n')) buffer.consume(1);
}

api::Headers copy_headers(const beast::http::fields& fields) {
  api::Headers headers;
  for (const auto& field : fields)
    headers.emplace_back(lower_case(field.name_string()), std::string(field.value()));
  return headers;
}

}  // namespace

// The answer to one request on a socket.
class SocketResponse final : public api::Response {
 public:
  SocketResponse(Connection& connection, bool head_only, bool http_1_0)
      : connection_(connection), head_only_(head_only), http_1_0_(http_1_0) {}

  asio::awaitable<bool> send(int status, api::Headers headers, std::string body) override {
    if (started_) co_return false;
    started_ = true;
    if (status != 204) headers.emplace_back("content-length", std::to_string(body.size()));
    std::string bytes = head(status, std::move(headers));
    if (!head_only_) bytes += body;
    finished_ = true;
    co_return co_await connection_.write_all(std::move(bytes));
  }

  asio::awaitable<bool> start_stream(int status, api::Headers headers) override {
    if (started_) co_return false;
    started_ = true;
    // HTTP/1.0 knows no chunks: the end of the connection is the end of the answer.
    if (http_1_0_) {
      connection_.last_ = true;
    } else {
      headers.emplace_back("transfer-encoding", "chunked");
    }
    co_return co_await connection_.write_all(head(status, std::move(headers)));
  }

  asio::awaitable<bool> write(std::string chunk) override {
    if (!started_ || finished_ || head_only_ || chunk.empty()) co_return !connection_.gone_;
    if (!http_1_0_) {
      chunk.insert(0, fmt::format("{:x}\r\n", chunk.size()));
      chunk += "\r\n";
    }
    co_return co_await connection_.write_all(std::move(chunk));
  }

  asio::awaitable<void> end_stream() override {
    if (!started_ || finished_) co_return;
    finished_ = true;
    if (!http_1_0_ && !head_only_) co_await connection_.write_all("0\r\n\r\n");
  }

  bool started() const override { return started_; }
  bool finished() const { return finished_; }
  // The client ended its side: bytes that the answer will have in any case are sent now (connection.h).
  void probe() {
    if (!started_ && ahead_ == 0) {
      ahead_ = connection_.send_ahead(kVersion);
    } else if (started_ && !finished_ && !http_1_0_ && !head_only_) {
      connection_.send_ahead("0");  // of the next chunk's size
    }
  }
  void on_cancel(std::function<void(api::CancelReason)> on_cancel) override {
    connection_.on_cancel(std::move(on_cancel));
  }

 private:
  std::string head(int status, api::Headers headers) const {
    headers.emplace_back("date", http_date(connection_.context_.clock.wall_now()));
    if (connection_.last_) {
      headers.emplace_back("connection", "close");
    } else if (http_1_0_) {
      headers.emplace_back("connection", "keep-alive");
    }
    return response_head(status, headers).substr(ahead_);
  }

  Connection& connection_;
  const bool head_only_, http_1_0_;
  std::size_t ahead_ = 0;  // bytes of the head that were sent before it
  bool started_ = false, finished_ = false;
};

// A body that its handler reads: a disk that takes it slowly slows the client down, and nothing piles up.
class SocketBody final : public api::BodyReader {
 public:
  SocketBody(Connection& connection, Connection::Parser& parser, std::uint64_t limit)
      : connection_(connection), parser_(parser), limit_(limit) {}

  asio::awaitable<Result<std::string>> next() override {
    auto& body = parser_.get().body();
    // Time that the handler takes is not the client's.
    Connection::BodyPace pace{steady_clock::now()};
    while (body.empty() && !parser_.is_done()) {
      if (connection_.cancelled_) co_return broken();
      connection_.reading_body_ = true;
      const auto outcome = co_await connection_.read_body_piece(parser_, pace);
      connection_.reading_body_ = false;
      if (outcome == Connection::Outcome::closed) co_return broken();
      if (outcome != Connection::Outcome::ok) {
        const api::ApiError error = connection_.error_of(outcome, limit_);
        const ErrorKind kind = outcome == Connection::Outcome::too_large ? ErrorKind::too_large
                               : outcome == Connection::Outcome::timeout ? ErrorKind::timeout
                                                                         : ErrorKind::invalid;
        co_return std::unexpected(Error{kind, error.code, error.message, {}});
      }
    }
    co_return std::exchange(body, {});
  }

 private:
  static std::unexpected<Error> broken() {
    return fail(ErrorKind::cancelled, "upload_broken", "the upload broke off; send the whole body again");
  }
  Connection& connection_;
  Connection::Parser& parser_;
  std::uint64_t limit_;
};

Connection::Connection(asio::ip::tcp::socket socket, const ConnectionContext& context)
    : socket_(std::move(socket)),
      context_(context),
      deadline_(socket_.get_executor()),
      idle_since_(steady_clock::now()),
      watch_done_(socket_.get_executor()) {
  error_code ignored;
  // Tokens are small and must leave at once.
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
  socket_.non_blocking(true, ignored);
}

asio::awaitable<void> Connection::serve() {
  const auto self = shared_from_this();
  while (co_await serve_one()) {
  }
  drop();
}

// One request and its answer. False: the connection ends.
asio::awaitable<bool> Connection::serve_one() {
  idle_ = true;
  idle_since_ = steady_clock::now();
  if (buffer_.size() == 0) buffer_.shrink_to_fit();

  Parser parser;
  parser.eager(false);
  parser.header_limit(static_cast<std::uint32_t>(context_.limits.header_bytes));
  parser.body_limit(boost::none);
  Outcome outcome = co_await read_head(parser);
  fresh_ = false;
  if (outcome != Outcome::ok) {
    co_await refuse(outcome, 0);
    co_return false;
  }
  idle_ = false;

  const auto& message = parser.get();
  api::Request request{
      std::string(message.method_string()), std::string(message.target()), copy_headers(message), {}};
  last_ = last_ || !parser.keep_alive();
  Admission admission = context_.router.admit(request);
  const bool expects =
      beast::iequals(api::find_header(request.headers, "expect").value_or(""), "100-continue");

  if (!parser.is_done()) {
    if (admission.refusal) {
      const auto length = parser.content_length();
      if (expects || !length || *length > kSkippedBody) {
        co_await refuse(std::move(*admission.refusal), !expects);
        co_return false;
      }
      parser.body_limit(kSkippedBody);
    } else {
      parser.body_limit(admission.body_limit);
      if (expects && buffer_.size() == 0 && !co_await write_all("HTTP/1.1 100 Continue\r\n\r\n"))
        co_return false;
      if (admission.route->streams_body) {
        co_return co_await answer_stream(std::move(admission), std::move(request), parser);
      }
    }
    outcome = co_await read_body(parser);
    if (outcome != Outcome::ok) {
      co_await refuse(outcome, admission.body_limit);
      co_return false;
    }
  }
  request.body = std::move(parser.get().body());
  co_await answer(std::move(admission), std::move(request), parser);
  co_return !last_ && !gone_;
}

// The handler reads the body. What it leaves unread is dropped with the connection.
asio::awaitable<bool> Connection::answer_stream(Admission admission, api::Request request, Parser& parser) {
  last_ = true;
  SocketBody body(*this, parser, admission.body_limit);
  request.pieces = &body;
  co_await answer(std::move(admission), std::move(request), parser);
  if (!parser.is_done() && !gone_) co_await drain();
  co_return false;
}

asio::awaitable<void> Connection::answer(Admission admission, api::Request request, const Parser& parser) {
  SocketResponse response(*this, request.method == "HEAD", parser.get().version() < 11);
  cancelled_.reset();
  answering_ = &response;
  const auto id = context_.open.add([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->cancel(api::CancelReason::stopping);
  });
  co_await context_.router.run(std::move(admission), std::move(request), response);
  context_.open.remove(id);
  on_cancel_ = {};
  co_await stop_watching();
  answering_ = nullptr;
  // An answer that has no end cannot be followed by another.
  if (!response.finished()) last_ = true;
}

asio::awaitable<Connection::Outcome> Connection::read_head(Parser& parser) {
  const auto& limits = context_.limits;
  bool waiting = !fresh_ && buffer_.size() == 0;  // between two requests
  bool begun = false;
  Time deadline = steady_clock::now() + (waiting ? limits.keep_alive : limits.header_wait);
  while (!parser.is_header_done()) {
    if (!begun) skip_line_ends(buffer_);
    if (buffer_.size() > 0) {
      // A TLS greeting has no line end to wait for: what cannot be a method is refused at its first byte.
      if (!std::exchange(begun, true) && !is_letter(first_byte(buffer_))) co_return Outcome::malformed;
      error_code error;
      buffer_.consume(parser.put(buffer_.data(), error));
      if (error == beast::http::error::header_limit) co_return Outcome::headers_too_large;
      if (error && error != beast::http::error::need_more) co_return Outcome::malformed;
      if (!error) continue;
    }
    const Outcome outcome = co_await read_more(kHeadPiece, deadline);
    if (outcome == Outcome::timeout && waiting) co_return Outcome::closed;
    if (outcome != Outcome::ok) co_return outcome;
    if (waiting) {
      waiting = false;
      deadline = steady_clock::now() + limits.header_wait;
    }
  }
  const auto& fields = parser.get();
  if (static_cast<std::size_t>(std::distance(fields.begin(), fields.end())) > limits.header_fields) {
    co_return Outcome::headers_too_large;
  }
  // A body whose end we could not tell must never be taken for the next request.
  if (fields.count(beast::http::field::transfer_encoding) > 0 && !parser.chunked())
    co_return Outcome::malformed;
  co_return Outcome::ok;
}

asio::awaitable<Connection::Outcome> Connection::read_body(Parser& parser) {
  BodyPace pace{steady_clock::now()};
  Outcome outcome = Outcome::ok;
  while (!parser.is_done() && outcome == Outcome::ok) outcome = co_await read_body_piece(parser, pace);
  co_return outcome;
}

asio::awaitable<Connection::Outcome> Connection::read_body_piece(Parser& parser, BodyPace& pace) {
  const auto& limits = context_.limits;
  if (buffer_.size() > 0) {
    error_code error;
    buffer_.consume(parser.put(buffer_.data(), error));
    if (error == beast::http::error::body_limit) co_return Outcome::too_large;
    if (error && error != beast::http::error::need_more) co_return Outcome::malformed;
    if (!error) co_return Outcome::ok;
    // What the parser waits for is a chunk's first line or the trailer; neither may grow without end.
    if (buffer_.size() > limits.header_bytes) co_return Outcome::malformed;
  }
  // A pause has its limit, and so has a body that never pauses but never gets anywhere either.
  const Time due = pace.begin + limits.body_grace + Millis(pace.arrived * 1000 / limits.body_rate_bytes);
  const std::size_t before = buffer_.size();
  const Outcome outcome =
      co_await read_more(kBodyPiece, std::min(steady_clock::now() + limits.body_stall, due));
  if (outcome == Outcome::ok) pace.arrived += buffer_.size() - before;
  co_return outcome;
}

asio::awaitable<Connection::Outcome> Connection::read_more(std::size_t bytes, Time deadline) {
  if (gone_) co_return Outcome::closed;
  arm(deadline);
  const auto [error, count] = co_await socket_.async_read_some(buffer_.prepare(bytes), kQuietly);
  disarm();
  buffer_.commit(count);
  if (count > 0) co_return Outcome::ok;
  co_return timed_out_ && !gone_ ? Outcome::timeout : Outcome::closed;
}

// Cancels what the socket waits for when `deadline` comes.
void Connection::arm(Time deadline) {
  timed_out_ = false;
  deadline_.expires_at(deadline);
  deadline_.async_wait([weak = weak_from_this(), armed = ++armed_](error_code error) {
    const auto self = weak.lock();
    if (error || !self || self->armed_ != armed) return;
    self->timed_out_ = true;
    error_code ignored;
    self->socket_.cancel(ignored);
  });
}

void Connection::disarm() {
  ++armed_;
  deadline_.cancel();
}

api::ApiError Connection::error_of(Outcome outcome, std::uint64_t body_limit) const {
  api::ApiError error;
  switch (outcome) {
    case Outcome::ok:
    case Outcome::closed:
      break;
    case Outcome::timeout:
      error = api::invalid_request(
          "request_timeout",
          fmt::format(
              "the request did not arrive in time: its head may take {} s; its body may pause for {} s, "
              "and after the first {} s it must average {} bytes per second",
              seconds(context_.limits.header_wait), seconds(context_.limits.body_stall),
              seconds(context_.limits.body_grace), context_.limits.body_rate_bytes));
      error.status = 408;
      break;
    case Outcome::too_large:
      error = api::request_too_large(body_limit);
      break;
    case Outcome::headers_too_large:
      error = api::invalid_request(
          "headers_too_large",
          fmt::format("the request's head is larger than {} bytes or has more than {} fields",
                      context_.limits.header_bytes, context_.limits.header_fields));
      error.status = 431;
      break;
    case Outcome::malformed:
      error = api::invalid_request("invalid_request", "the request is not well-formed HTTP/1.1");
      break;
  }
  return error;
}

asio::awaitable<void> Connection::refuse(Outcome outcome, std::uint64_t body_limit) {
  if (outcome == Outcome::ok || outcome == Outcome::closed) co_return;
  co_await refuse(context_.router.connection_error(error_of(outcome, body_limit)), true);
}

// The last answer of this connection; `unread`: the client may still be sending.
asio::awaitable<void> Connection::refuse(Reply reply, bool unread) {
  last_ = true;
  SocketResponse response(*this, false, false);
  if (co_await response.send(reply.status, std::move(reply.headers), std::move(reply.body)) && unread)
    co_await drain();
}

asio::awaitable<void> Connection::drain() {
  error_code error;
  socket_.shutdown(asio::ip::tcp::socket::shutdown_send, error);
  const Time deadline = steady_clock::now() + context_.limits.drain_time;
  for (std::size_t left = context_.limits.drain_bytes; left > 0;) {
    buffer_.clear();
    if (co_await read_more(kBodyPiece, deadline) != Outcome::ok) break;
    left -= std::min(left, buffer_.size());
  }
}

asio::awaitable<bool> Connection::write_all(std::string bytes) {
  if (gone_) co_return false;
  error_code error;
  // Nearly always the kernel takes it all at once, and then no detour through the event loop is needed.
  std::size_t sent = socket_.write_some(asio::buffer(bytes), error);
  while (!gone_ && (sent < bytes.size() || error)) {
    if (error && error != asio::error::would_block && error != asio::error::try_again) {
      gone_ = true;
      break;
    }
    writing_ = true;
    arm(steady_clock::now() + context_.limits.write_stall);
    const auto [failed, count] =
        co_await socket_.async_write_some(asio::buffer(bytes.data() + sent, bytes.size() - sent), kQuietly);
    disarm();
    writing_ = false;
    sent += count;
    error = count > 0 ? error_code() : failed;
  }
  co_return !gone_;
}

std::size_t Connection::send_ahead(std::string_view bytes) {
  // What is under way already does the same.
  if (gone_ || writing_) return 0;
  error_code error;
  const std::size_t sent = socket_.write_some(asio::buffer(bytes), error);
  if (error && error != asio::error::would_block && error != asio::error::try_again) on_gone();
  return sent;
}

void Connection::on_cancel(std::function<void(api::CancelReason)> on_cancel) {
  on_cancel_ = std::move(on_cancel);
  if (!on_cancel_) return;
  // Also where an earlier request of this connection saw the end of what the client sends.
  if (ended_ && answering_ != nullptr) answering_->probe();
  if (gone_) cancelled_ = api::CancelReason::client_gone;
  if (!on_cancel_) return;
  if (cancelled_) {
    std::exchange(on_cancel_, {})(*cancelled_);
  } else {
    watch();
  }
}

void Connection::cancel(api::CancelReason reason) {
  if (!cancelled_) cancelled_ = reason;
  if (error_code ignored; reading_body_) socket_.cancel(ignored);
  if (on_cancel_) std::exchange(on_cancel_, {})(reason);
}

void Connection::on_gone() {
  gone_ = true;
  cancel(api::CancelReason::client_gone);
}

// Reading tells when the client stops sending. What it sends meanwhile is the next request and stays in the
// buffer. After its end, or when the buffer is full, only a broken connection is waited for.
void Connection::watch() {
  if (watching_ || watch_ends_ || gone_) return;
  watching_ = true;
  const auto self = shared_from_this();
  if (ended_ || buffer_.size() >= kPipelined) {
    socket_.async_wait(asio::socket_base::wait_error,
                       asio::bind_cancellation_slot(watch_cancel_.slot(), [self](error_code error) {
                         if (!error && os::is_broken(self->socket_.native_handle()))
                           error = asio::error::connection_reset;
                         self->on_watched(error, 0);
                       }));
  } else {
    socket_.async_read_some(
        buffer_.prepare(kHeadPiece),
        asio::bind_cancellation_slot(watch_cancel_.slot(), [self](error_code error, std::size_t count) {
          self->on_watched(error, count);
        }));
  }
}

void Connection::on_watched(error_code error, std::size_t count) {
  watching_ = false;
  buffer_.commit(count);
  if (watch_ends_) {
    // A client's end that arrived in this very moment is found by the next read.
    watch_done_.cancel();
  } else if (!error && count == 0) {
    // Woken by something else (urgent data): waiting on would wake at once, for ever. A client that goes away
    // is then noticed at the next write.
  } else if (!error || error == asio::error::operation_aborted) {
    watch();  // a write's deadline cancels everything that waits
  } else if (error == asio::error::eof) {
    ended_ = true;
    if (buffer_.size() == 0) last_ = true;
    answering_->probe();
    watch();
  } else {
    on_gone();
  }
}

asio::awaitable<void> Connection::stop_watching() {
  watch_ends_ = true;
  while (watching_) {
    watch_cancel_.emit(asio::cancellation_type::all);
    if (!watching_) break;
    watch_done_.expires_at(Time::max());
    co_await watch_done_.async_wait(kQuietly);
  }
  watch_ends_ = false;
}

void Connection::finish() {
  last_ = true;
  if (idle_) drop();
}

void Connection::drop() {
  if (!gone_) {
    gone_ = true;
    cancel(api::CancelReason::client_gone);
  }
  error_code ignored;
  socket_.close(ignored);
}

}  // namespace gezel::http
