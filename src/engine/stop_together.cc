#include "engine/stop_together.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/this_coro.hpp>

#include "engine/wakeup.h"

namespace gezel::engine {

boost::asio::awaitable<bool> stop_together(std::vector<std::shared_ptr<Engine>> engines) {
  const auto loop = co_await boost::asio::this_coro::executor;
  struct All {
    explicit All(const boost::asio::any_io_executor& on) : stopped(on) {}
    std::size_t left = 0;
    bool was_running = false;
    Wakeup stopped;
  };
  const auto all = std::make_shared<All>(loop);
  all->left = engines.size();
  for (const auto& engine : engines) {
    boost::asio::co_spawn(
        loop,
        [engine, all]() -> boost::asio::awaitable<void> {
          if ((co_await engine->stop()).was_running) all->was_running = true;
        },
        [all](const std::exception_ptr&) {
          if (--all->left == 0) all->stopped.notify();
        });
  }
  while (all->left > 0) {
    if (!co_await all->stopped.wait()) break;
  }
  co_return all->was_running;
}

}  // namespace gezel::engine
