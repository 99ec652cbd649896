// engine/wakeup.h
//
// Coroutines of one event loop waiting for "something changed". A waiter checks its condition, waits, and
// checks again: a wake-up says nothing by itself. Nothing is lost between check and wait, because both happen
// in one turn of the loop.
#pragma once
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace gezel::engine {

class Wakeup {
 public:
  explicit Wakeup(const boost::asio::any_io_executor& loop)
      : timer_(loop, boost::asio::steady_timer::time_point::max()) {}

  void notify() { timer_.cancel(); }

  // False when the waiting coroutine was cancelled.
  boost::asio::awaitable<bool> wait() {
    boost::system::error_code woken;
    co_await timer_.async_wait(boost::asio::redirect_error(boost::asio::use_awaitable, woken));
    auto state = co_await boost::asio::this_coro::cancellation_state;
    co_return state.cancelled() == boost::asio::cancellation_type::none;
  }

 private:
  boost::asio::steady_timer timer_;
};

}  // namespace gezel::engine
