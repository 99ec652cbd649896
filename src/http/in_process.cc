#include "http/in_process.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>

namespace gezel::http {
namespace {

constexpr auto kQuietly = asio::as_tuple(asio::use_awaitable);

// Sleeps until the other side cancels the timer.
asio::awaitable<void> sleep_on(asio::steady_timer& timer) {
  timer.expires_at(std::chrono::steady_clock::time_point::max());
  co_await timer.async_wait(kQuietly);
}

}  // namespace

// What handler and reader share: at most one piece of the body lies between them.
class InProcessExchange final : public api::Response, public std::enable_shared_from_this<InProcessExchange> {
 public:
  InProcessExchange(const asio::any_io_executor& loop, OpenRequests& open)
      : open_(open), reader_(loop), writer_(loop) {}

  void open() {
    id_ = open_.add([weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->cancel();
    });
  }
  void leave() { open_.remove(id_); }

  // The handler's side.
  asio::awaitable<bool> send(int status, api::Headers headers, std::string body) override {
    if (started_ || cancelled_) co_return false;
    begin(status, std::move(headers));
    if (!body.empty()) piece_ = std::move(body);
    finish();
    co_return true;
  }
  asio::awaitable<bool> start_stream(int status, api::Headers headers) override {
    if (started_ || cancelled_) co_return false;
    begin(status, std::move(headers));
    co_return true;
  }
  asio::awaitable<bool> write(std::string chunk) override {
    if (ended_) co_return false;
    if (!cancelled_ && !chunk.empty()) {
      piece_ = std::move(chunk);
      reader_.cancel();
      while (piece_ && !cancelled_) co_await sleep_on(writer_);
    }
    co_return !cancelled_;
  }
  asio::awaitable<void> end_stream() override {
    finish();
    co_return;
  }
  bool started() const override { return started_; }
  void on_cancel(std::function<void(api::CancelReason)> on_cancel) override {
    on_cancel_ = std::move(on_cancel);
    if (cancelled_ && on_cancel_) std::exchange(on_cancel_, {})(api::CancelReason::client_gone);
  }
  // The handler returned; an answer that it left open ends here.
  void handler_done() {
    if (!started_) begin(500, {});
    finish();
  }

  // The reader's side.
  asio::awaitable<void> wait_for_head() {
    while (!started_ && !cancelled_) co_await sleep_on(reader_);
  }
  asio::awaitable<std::optional<std::string>> read() {
    while (!piece_ && !ended_ && !cancelled_) co_await sleep_on(reader_);
    std::optional<std::string> piece;
    if (!cancelled_ || refused_) piece.swap(piece_);
    if (!piece) leave();
    writer_.cancel();
    co_return piece;
  }
  void cancel() {
    leave();
    if (cancelled_ || (ended_ && !piece_)) return;
    cancelled_ = true;
    if (!started_) {
      const api::ApiError error = api::shutting_down();
      begin(error.status, api::error_headers(error));
      piece_ = api::error_body(error, {});
      ended_ = refused_ = true;
    }
    if (on_cancel_) std::exchange(on_cancel_, {})(api::CancelReason::client_gone);
    reader_.cancel();
    writer_.cancel();
  }
  bool complete() const { return ended_ && (!cancelled_ || refused_); }
  int status() const { return status_; }
  const api::Headers& headers() const { return headers_; }

 private:
  void begin(int status, api::Headers headers) {
    started_ = true;
    status_ = status;
    headers_ = std::move(headers);
    reader_.cancel();
  }
  void finish() {
    if (ended_) return;
    ended_ = true;
    if (!piece_) leave();  // nothing that anyone would have to read
    reader_.cancel();
  }

  OpenRequests& open_;
  OpenRequests::Id id_ = 0;
  asio::steady_timer reader_, writer_;
  int status_ = 0;
  api::Headers headers_;
  std::optional<std::string> piece_;
  bool started_ = false, ended_ = false, cancelled_ = false;
  bool refused_ = false;  // cancelled before the handler answered: the answer is ours
  std::function<void(api::CancelReason)> on_cancel_;
};

InProcessReply::InProcessReply(std::shared_ptr<InProcessExchange> exchange)
    : exchange_(std::move(exchange)) {}
InProcessReply::~InProcessReply() {
  exchange_->cancel();
}
int InProcessReply::status() const {
  return exchange_->status();
}
const api::Headers& InProcessReply::headers() const {
  return exchange_->headers();
}
asio::awaitable<std::optional<std::string>> InProcessReply::read() {
  return exchange_->read();
}
bool InProcessReply::complete() const {
  return exchange_->complete();
}
void InProcessReply::cancel() {
  exchange_->cancel();
}

asio::awaitable<std::string> InProcessReply::read_all() {
  std::string all;
  while (auto piece = co_await exchange_->read()) all += *piece;
  co_return all;
}

asio::awaitable<std::unique_ptr<InProcessReply>> InProcessTransport::call(api::Request request) {
  request.in_process = true;
  const auto exchange = std::make_shared<InProcessExchange>(loop_, open_);
  exchange->open();
  auto reply = std::make_unique<InProcessReply>(exchange);
  asio::co_spawn(
      loop_,
      [exchange, &router = router_, request = std::move(request)]() mutable {
        return router.handle(std::move(request), *exchange);
      },
      [exchange](const std::exception_ptr&) { exchange->handler_done(); });
  co_await exchange->wait_for_head();
  co_return reply;
}

}  // namespace gezel::http
