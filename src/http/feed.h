// http/feed.h
//
// A generation's events on their way to a client. A pump takes them from the engine one at a time and asks
// for the next only when the writer has dealt with the last, so a slow client slows its own generation; the
// writer meanwhile can wait for "an event, or so long", which an engine's next() alone cannot offer without
// losing events.
#pragma once
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <exception>
#include <filesystem>
#include <memory>
#include <optional>

#include "api/chat.h"
#include "api/exchange.h"
#include "engine/engine.h"
#include "service/inference_service.h"

namespace gezel::http {

namespace asio = boost::asio;

class Feed : public std::enable_shared_from_this<Feed> {
 public:
  explicit Feed(const asio::any_io_executor& loop) : wake_(loop), space_(loop) {}

  // Starts the request and the pump.
  void start(service::InferenceService& inference, api::ChatRequest request);
  // Waits until something happened (an event, a refusal, a cancellation) or `deadline`. False: the deadline
  // came first.
  asio::awaitable<bool> wait_until(std::chrono::steady_clock::time_point deadline);
  // What happened. An exception of the engine is thrown on here.
  void rethrow() const;
  const std::optional<api::ApiError>& refusal() const { return refusal_; }
  std::optional<api::CancelReason> cancelled() const { return cancelled_; }
  const std::optional<engine::Event>& event() const { return event_; }
  // The writer is done with the event; the pump may fetch the next.
  void consume();

  void cancel(api::CancelReason reason);
  // Ends the generation; nothing of it is wanted any more.
  void close();

 private:
  asio::awaitable<void> pump(service::InferenceService& inference, api::ChatRequest request);
  bool ready() const { return event_ || refusal_ || failure_ || cancelled_; }

  std::unique_ptr<engine::Generation> generation_;
  std::optional<engine::Event> event_;
  std::optional<api::ApiError> refusal_;
  std::exception_ptr failure_;
  std::optional<api::CancelReason> cancelled_;
  bool closed_ = false;
  bool ended_ = false;        // the generation's last event came
  asio::steady_timer wake_;   // the writer sleeps on it
  asio::steady_timer space_;  // the pump sleeps on it
};

}  // namespace gezel::http
