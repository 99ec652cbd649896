// engine/on_pool.h
//
// Blocking work away from the event loop, awaited on it.
#pragma once
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <type_traits>
#include <utility>

namespace gezel::engine {

// Runs `work` on `pool` and comes back with its result, or its exception. `work` is kept until it ends, also
// when the coroutine that waits is destroyed before.
template <class Work>
boost::asio::awaitable<std::invoke_result_t<Work&>> on_pool(boost::asio::any_io_executor pool, Work work) {
  using Answer = std::invoke_result_t<Work&>;
  co_return co_await boost::asio::co_spawn(
      pool, [work = std::move(work)]() mutable -> boost::asio::awaitable<Answer> { co_return work(); },
      boost::asio::use_awaitable);
}

}  // namespace gezel::engine
