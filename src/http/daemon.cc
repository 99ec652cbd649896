// Start-up in the order of spec 10 section 18; the stop undoes it in reverse, each step whatever the others
// did. Nothing slow comes before the port is open: models are listed and engines started when someone asks
// for them.
#include "http/daemon.h"

#include <fmt/format.h>

#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "base/files.h"
#include "base/heap.h"
#include "base/log.h"
#include "http/cleanup.h"
#include "http/listener.h"
#include "http/os.h"
#include "http/port_probe.h"
#include "http/router.h"
#include "service/credentials.h"
#include "service/runtime_files.h"

namespace gezel::http {
namespace {

constexpr auto kQuietly = asio::as_tuple(asio::use_awaitable);
constexpr Millis kStreamGrace{2'000};  // streams may end by themselves for this long
constexpr Millis kDrainTime{1'000};    // coroutines may end after everything was stopped
constexpr std::size_t kPoolThreads = 2;

class Daemon {
 public:
  Daemon(asio::io_context& loop, const DaemonOptions& options)
      : loop_(loop),
        options_(options),
        signals_(loop, SIGINT, SIGTERM),
        stop_asked_(loop),
        stdin_(loop),
        sockets_(loop.get_executor()),
        pool_(kPoolThreads) {}

  // From start to stop; the exit code.
  asio::awaitable<int> run() {
    watch_signals();
    const auto started = start();
    if (!started) {
      report(started.error().message);
    } else {
      if (options_.shutdown_on_stdin_eof) watch_stdin();
      while (!stopping_) {
        stop_asked_.expires_at(std::chrono::steady_clock::time_point::max());
        co_await stop_asked_.async_wait(kQuietly);
      }
    }
    const bool clean = co_await stop();
    co_return started&& clean ? 0 : 1;
  }

 private:
  Result<> start() {
    const fs::path& home = options_.service.home;
    GEZEL_CHECK(make_private_folder(home));
    auto lock = service::InstanceLock::acquire(home);
    if (!lock) return std::unexpected(lock.error());
    lock_.emplace(std::move(*lock));
    push("instance lock", [this] { lock_->release(); });
    // A killed daemon leaves its files behind; a client must not knock at its port while we start.
    service::remove_runtime_files(home);
    service::remove_leftovers(home);

    GEZEL_TRY(credentials_, service::Credentials::open(home, clock_, entropy_));
    GEZEL_TRY(inference_, service::InferenceService::create(loop_.get_executor(), options_.service));
    router_.emplace(Services{*inference_, *credentials_, clock_, entropy_, loop_.get_executor(), pool_,
                             [this] { ask_to_stop("a request"); }, options_.no_auth, ChatTimings{}, &heap_});

    // Undone from the last to the first: engines end while their streams can still say so, then the listener
    // closes, then the files disappear by which clients find it. Each step is registered before its beginning
    // may fail half-way.
    push("runtime files", [home] { service::remove_runtime_files(home); });
    cleanup_.push("main listener", [this]() -> asio::awaitable<void> {
      if (listener_) co_await listener_->close(kStreamGrace);
    });
    cleanup_.push("engines", [this] { return inference_->stop(); });

    GEZEL_TRY(listener_,
              Listener::bind(loop_.get_executor(), options_.port, kDefaultPort, *router_, sockets_, clock_));
    listener_->start();
    GEZEL_CHECK(service::write_runtime_files(home, listener_->port(), credentials_->client_token()));
    announce();
    return {};
  }

  void announce() {
    const std::uint16_t port = listener_->port();
    log_info("listening", {{"url", fmt::format("http://127.0.0.1:{}/v1", port)},
                           {"pid", std::to_string(os::process_id())}});
    if (options_.no_auth) {
      log_warn(
          "authentication is OFF (--no-auth): every program on this machine can ask models through this "
          "port");
    }
    if (!listener_->fell_back()) return;
    log_warn(fmt::format("port {} is taken; listening on port {} instead. Clients find it in runtime/port",
                         kDefaultPort, port));
    asio::co_spawn(
        loop_,
        []() -> asio::awaitable<void> {
          switch (co_await probe_port(kDefaultPort)) {
            case Occupant::gezel:
              log_error(fmt::format(
                  "another gezel daemon holds port {}: the two will compete for the engines", kDefaultPort));
              break;
            case Occupant::foreign:
              log_warn(fmt::format("another HTTP server holds port {}", kDefaultPort));
              break;
            case Occupant::unknown:
              break;
          }
        },
        asio::detached);
  }

  // Spec 10 section 18: refuse new work, end what runs, then undo.
  asio::awaitable<bool> stop() {
    if (router_) router_->begin_stop();
    if (listener_) listener_->stop_accepting();
    heap_.stop();
    sockets_.abort_all();
    const auto failures = co_await cleanup_.unwind();
    for (const auto& failure : failures) log_error("stopping was not clean", {{"step", failure}});
    signals_.cancel();
    boost::system::error_code ignored;
    stdin_.close(ignored);
    log_info("stopped");
    co_return failures.empty();
  }

  void ask_to_stop(std::string_view by) {
    if (stopping_) return;
    stopping_ = true;
    log_info("stopping", {{"asked_by", std::string(by)}});
    stop_asked_.cancel();
  }

  void watch_signals() {
    signals_.async_wait([this](boost::system::error_code error, int number) {
      if (error) return;
      ask_to_stop(number == SIGINT ? "SIGINT" : "SIGTERM");
      watch_signals();
    });
  }

  // The end of standard input is the end of the program that started us.
  void watch_stdin() {
    boost::system::error_code error;
    Fd copy = os::duplicate_stdin();
    if (copy) stdin_.assign(copy.get(), error);
    // What cannot be waited for (a file, /dev/null) has its end at once.
    if (!copy || error) return ask_to_stop("the end of standard input");
    copy.release();
    asio::co_spawn(loop_, read_stdin(), asio::detached);
  }

  asio::awaitable<void> read_stdin() {
    std::array<char, 256> ignored_input;
    while (stdin_.is_open()) {
      const auto [error, count] = co_await stdin_.async_read_some(asio::buffer(ignored_input), kQuietly);
      if (!error) continue;
      if (error != asio::error::operation_aborted) ask_to_stop("the end of standard input");
      break;
    }
  }

  template <class F>
  void push(std::string name, F step) {
    cleanup_.push(std::move(name), [step]() -> asio::awaitable<void> {
      step();
      co_return;
    });
  }

  static void report(const std::string& message) { fmt::print(stderr, "gezel: {}\n", message); }

  asio::io_context& loop_;
  const DaemonOptions& options_;
  SystemClock clock_;
  SystemEntropy entropy_;
  asio::signal_set signals_;
  asio::steady_timer stop_asked_;
  asio::posix::stream_descriptor stdin_;
  OpenRequests sockets_;
  Cleanup cleanup_;
  bool stopping_ = false;

  std::optional<service::InstanceLock> lock_;
  std::unique_ptr<service::Credentials> credentials_;
  std::unique_ptr<service::InferenceService> inference_;
  std::optional<Router> router_;
  std::unique_ptr<Listener> listener_;
  asio::thread_pool pool_;
  HeapRelief heap_{loop_.get_executor(), pool_.get_executor(), return_free_memory};
};

}  // namespace

int run_daemon(const DaemonOptions& options) {
  // A client that goes away while we write is an error of that write, not a signal.
  os::ignore_broken_pipes();
  os::raise_descriptor_limit();
  keep_no_large_blocks();
  asio::io_context loop(1);
  int code = 1;
  bool ended = false;
  {
    Daemon daemon(loop, options);
    asio::co_spawn(loop, daemon.run(), [&](const std::exception_ptr& thrown, int result) {
      ended = true;
      if (!thrown) {
        code = result;
        return;
      }
      try {
        std::rethrow_exception(thrown);
      } catch (const std::exception& error) {
        fmt::print(stderr, "gezel: unexpected error: {}\n", error.what());
      }
    });
    while (!ended && loop.run_one() > 0) {
    }
    // What was cancelled needs a turn of the loop to notice; after that nothing refers to the service any
    // more.
    loop.run_for(kDrainTime);
    if (!loop.stopped()) {
      // Something still waits. Its objects must not be taken apart under it, and everything that outlives
      // this process has been put in order already.
      log_warn("some work did not end in time");
      std::fflush(nullptr);
      std::_Exit(code);
    }
  }
  return code;
}

}  // namespace gezel::http
