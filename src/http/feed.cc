#include "http/feed.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace gezel::http {
namespace {

constexpr auto kQuietly = asio::as_tuple(asio::use_awaitable);
constexpr auto kForEver = std::chrono::steady_clock::time_point::max();

bool is_last(const engine::Event& event) {
  return std::holds_alternative<engine::Done>(event) || std::holds_alternative<engine::Failed>(event);
}

}  // namespace

void Feed::start(service::InferenceService& inference, api::ChatRequest request) {
  // The pump keeps the feed alive: an engine that is slow to cancel must find its generation still there.
  asio::co_spawn(
      wake_.get_executor(),
      [self = shared_from_this(), &inference, request = std::move(request)]() mutable {
        return self->pump(inference, std::move(request));
      },
      [self = shared_from_this()](const std::exception_ptr& failure) {
        if (!failure) return;
        self->failure_ = failure;
        self->wake_.cancel();
      });
}

asio::awaitable<void> Feed::pump(service::InferenceService& inference, api::ChatRequest request) {
  auto accepted = co_await inference.chat(request);
  if (!accepted) {
    refusal_ = std::move(accepted.error());
    wake_.cancel();
    co_return;
  }
  generation_ = std::move(*accepted);
  request = {};  // the engine has its own
  while (!closed_) {
    engine::Event event = co_await generation_->next();
    ended_ = is_last(event);
    if (closed_) break;
    event_ = std::move(event);
    wake_.cancel();
    if (ended_) break;
    while (event_ && !closed_) {
      space_.expires_at(kForEver);
      co_await space_.async_wait(kQuietly);
    }
  }
  if (closed_) generation_.reset();
}

asio::awaitable<bool> Feed::wait_until(std::chrono::steady_clock::time_point deadline) {
  while (!ready()) {
    if (std::chrono::steady_clock::now() >= deadline) co_return false;
    wake_.expires_at(deadline);
    co_await wake_.async_wait(kQuietly);
  }
  co_return true;
}

void Feed::rethrow() const {
  if (failure_) std::rethrow_exception(failure_);
}

void Feed::consume() {
  event_.reset();
  space_.cancel();
}

void Feed::cancel(api::CancelReason reason) {
  if (!cancelled_) cancelled_ = reason;
  if (generation_ && !ended_) generation_->cancel();
  wake_.cancel();
}

void Feed::close() {
  closed_ = true;
  if (generation_ && !ended_) generation_->cancel();
  space_.cancel();
}

}  // namespace gezel::http
