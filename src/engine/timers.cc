#include "engine/timers.h"

#include <algorithm>
#include <boost/asio/steady_timer.hpp>

namespace gezel::engine {
namespace {

class LoopTimer final : public Timer {
 public:
  explicit LoopTimer(const asio::any_io_executor& loop) : timer_(loop) {}
  ~LoopTimer() override { cancel(); }

  void arm(MonotonicTime deadline, std::function<void()> callback) override {
    cancel();
    // A cancelled wait may already be queued as a success; the token tells whether this call is still wanted.
    token_ = std::make_shared<std::function<void()>>(std::move(callback));
    timer_.expires_at(deadline);
    timer_.async_wait([weak = std::weak_ptr(token_)](const boost::system::error_code& failed) {
      auto token = weak.lock();
      if (failed || !token) return;
      auto call = std::move(*token);
      token.reset();
      if (call) call();
    });
  }

  void cancel() override {
    token_.reset();
    timer_.cancel();
  }

 private:
  asio::steady_timer timer_;
  std::shared_ptr<std::function<void()>> token_;
};

}  // namespace

std::unique_ptr<Timer> LoopTimers::make() {
  return std::make_unique<LoopTimer>(loop_);
}

class ManualTimers::Manual final : public Timer {
 public:
  explicit Manual(std::shared_ptr<std::map<Manual*, Entry>> armed) : armed_(std::move(armed)) {}
  ~Manual() override { cancel(); }
  void arm(MonotonicTime deadline, std::function<void()> callback) override {
    (*armed_)[this] = Entry{deadline, std::move(callback)};
  }
  void cancel() override { armed_->erase(this); }

 private:
  std::shared_ptr<std::map<Manual*, Entry>> armed_;
};

std::unique_ptr<Timer> ManualTimers::make() {
  return std::make_unique<Manual>(armed_);
}

void ManualTimers::advance(Millis by, const std::function<void()>& settle) {
  const MonotonicTime end = clock_.now() + by;
  if (settle) settle();
  while (true) {
    auto next =
        std::ranges::min_element(*armed_, {}, [](const auto& entry) { return entry.second.deadline; });
    if (next == armed_->end() || next->second.deadline > end) break;
    if (next->second.deadline > clock_.now())
      clock_.advance(std::chrono::ceil<Millis>(next->second.deadline - clock_.now()));
    auto call = std::move(next->second.callback);
    armed_->erase(next);
    call();
    if (settle) settle();
  }
  if (end > clock_.now()) clock_.advance(std::chrono::ceil<Millis>(end - clock_.now()));
  if (settle) settle();
}

}  // namespace gezel::engine
