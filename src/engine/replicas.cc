#include "engine/replicas.h"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <vector>

#include "base/log.h"
#include "engine/replica_caches.h"
#include "engine/router.h"
#include "engine/stop_together.h"

namespace gezel::engine {
namespace {

int requests_of(const Status& status) {
  return static_cast<int>(status.queued) + status.slots_busy;
}

// Shared, because a load in the background may outlive the engine in front of it.
class Group : public std::enable_shared_from_this<Group> {
 public:
  explicit Group(ReplicaParts parts) : parts_(std::move(parts)) {
    for (int i = 0; i < std::max(1, parts_.count); ++i) workers_.push_back({parts_.make(i), false, {}});
  }

  // Where a request goes; what would have been better is loaded for those to come.
  Engine& route(const std::string& session) {
    std::vector<Router::Replica> replicas;
    for (const auto& worker : workers_) {
      const auto status = worker.engine->status();
      replicas.push_back({status.state == State::ready, status.draining, requests_of(status)});
    }
    const auto route = router_.bind(session, replicas, parts_.clock.now());
    if (route.missed) load(static_cast<std::size_t>(*route.missed));
    return *workers_[static_cast<std::size_t>(route.replica)].engine;
  }

  std::vector<std::shared_ptr<Engine>> engines() const {
    std::vector<std::shared_ptr<Engine>> out;
    for (const auto& worker : workers_) out.push_back(worker.engine);
    return out;
  }
  // The first that is loaded, else the first that is being loaded, else the first.
  Engine& foremost() const {
    for (const State wanted : {State::ready, State::starting}) {
      for (const auto& worker : workers_)
        if (worker.engine->status().state == wanted) return *worker.engine;
    }
    return *workers_.front().engine;
  }

  // Those that are loaded; without one the first, which says so.
  std::vector<CacheKeeper> keepers() const {
    std::vector<CacheKeeper> out;
    for (std::size_t i = 0; i < workers_.size(); ++i) {
      if (workers_[i].engine->status().state == State::ready)
        out.push_back({static_cast<int>(i), workers_[i].engine});
    }
    if (out.empty()) out.push_back({0, workers_.front().engine});
    return out;
  }
  // Who is asked about a node, or about a prompt: where that conversation is at home.
  CacheKeeper keeper_for(const CacheQuery& query) {
    auto loaded = keepers();
    auto wanted = query.node != 0 ? std::optional(replica_of_node(query.node)) : std::nullopt;
    if (!wanted && query.request) wanted = router_.home(query.request->session_key, parts_.clock.now());
    const auto found =
        std::ranges::find_if(loaded, [&](const CacheKeeper& keeper) { return keeper.replica == wanted; });
    return found != loaded.end() ? *found : loaded.front();
  }

  Status status() {
    auto out = foremost().status();
    out.bytes = 0;
    out.slots = out.slots_busy = 0;
    out.queued = 0;
    out.lanes = {};
    for (std::size_t i = 0; i < workers_.size(); ++i) {
      const auto one = workers_[i].engine->status();
      out.bytes += one.bytes;
      out.slots += one.slots;
      out.slots_busy += one.slots_busy;
      out.queued += one.queued;
      for (std::size_t lane = 0; lane < one.lanes.size(); ++lane) {
        out.lanes[lane].running += one.lanes[lane].running;
        out.lanes[lane].queued += one.lanes[lane].queued;
      }
      if (one.state == State::ready) {
        // What every request is granted, and what is unloaded last.
        out.context = std::min(out.context, one.context);
        out.idle_ms = std::min(out.idle_ms, one.idle_ms);
        if (!one.unload_at || (out.unload_at && *one.unload_at > *out.unload_at))
          out.unload_at = one.unload_at;
      }
      if (one.state != State::stopped || one.queued > 0) {
        const int number = static_cast<int>(i);
        out.replicas.push_back({number, one.state, one.pid, one.bytes, one.slots, one.slots_busy, one.context,
                                one.queued, router_.sessions(number, parts_.clock.now()), one.draining});
      }
    }
    return out;
  }

  void refresh() {
    for (const auto& engine : engines()) {
      if (engine->busy()) {
        engine->refresh();
      } else if (engine->status().state != State::stopped) {
        boost::asio::co_spawn(
            parts_.loop, [engine]() -> asio::awaitable<void> { co_await engine->stop(); },
            boost::asio::detached);
      }
    }
  }

 private:
  struct Worker {
    std::shared_ptr<Engine> engine;
    bool loading = false;
    std::optional<MonotonicTime> rests_until;  // after a load that failed
  };

  void load(std::size_t index) {
    auto& worker = workers_[index];
    if (worker.loading || (worker.rests_until && parts_.clock.now() < *worker.rests_until)) return;
    worker.loading = true;
    boost::asio::co_spawn(
        parts_.loop,
        [self = shared_from_this(), index]() -> asio::awaitable<void> {
          auto& mine = self->workers_[index];
          const auto loaded = co_await mine.engine->ensure_ready();
          if (loaded) co_return;
          mine.rests_until = self->parts_.clock.now() + kReplicaPause;
          log_info("no further worker of a model is loaded",
                   {{"replica", std::to_string(index)}, {"reason", loaded.error().error.message}});
        },
        [self = shared_from_this(), index](const std::exception_ptr&) {
          self->workers_[index].loading = false;
        });
  }

  ReplicaParts parts_;
  std::vector<Worker> workers_;
  Router router_;
};

class Replicas final : public Engine {
 public:
  explicit Replicas(ReplicaParts parts) : group_(std::make_shared<Group>(std::move(parts))) {}

  Status status() const override { return group_->status(); }
  asio::awaitable<EngineResult<>> ensure_ready() override {
    const auto group = group_;
    co_return co_await group->foremost().ensure_ready();
  }
  asio::awaitable<EngineResult<std::unique_ptr<Generation>>> generate(
      prompt::GenerateRequest request) override {
    const auto group = group_;
    co_return co_await group->route(request.session_key).generate(std::move(request));
  }
  bool busy() const override {
    return std::ranges::any_of(group_->engines(), [](const auto& engine) { return engine->busy(); });
  }
  void refresh() override { group_->refresh(); }
  asio::awaitable<StopOutcome> stop() override {
    const auto group = group_;
    co_return StopOutcome{co_await stop_together(group->engines())};
  }
  asio::awaitable<std::optional<std::string>> worker_stats() override {
    const auto group = group_;
    // Every worker's, because cache_use() adds up what each said last; the first one's is told.
    std::optional<std::string> first;
    for (const auto& keeper : group->keepers()) {
      auto stats = co_await keeper.engine->worker_stats();
      if (!first) first = std::move(stats);
    }
    co_return first;
  }
  std::string calibration() const override { return group_->foremost().calibration(); }
  bool calibrate() override {
    bool any = false;
    for (const auto& engine : group_->engines()) any = engine->calibrate() || any;
    return any;
  }
  std::optional<CacheUse> cache_use() const override { return cache_use_of(group_->keepers()); }
  asio::awaitable<EngineResult<CacheReply>> cache(CacheQuery query) override {
    using Op = CacheQuery::Op;
    const auto group = group_;
    // A prompt is computed where the request that it is for will go.
    if (query.op == Op::warm && query.request) (void)group->route(query.request->session_key);
    const bool of_one =
        query.node != 0 || query.op == Op::inspect || query.op == Op::explain || query.op == Op::warm;
    if (of_one) co_return co_await ask_one(group->keeper_for(query), std::move(query));
    co_return co_await ask_all(group->keepers(), std::move(query));
  }
  void set_manners(Manners manners) override {
    for (const auto& engine : group_->engines()) engine->set_manners(manners);
  }
  asio::awaitable<EngineResult<capacity::MemoryPlan>> plan(MemoryWish wish) override {
    const auto group = group_;
    co_return co_await group->engines().front()->plan(wish);
  }

 private:
  std::shared_ptr<Group> group_;
};

}  // namespace

std::unique_ptr<Engine> make_replicas(ReplicaParts parts) {
  return std::make_unique<Replicas>(std::move(parts));
}

}  // namespace gezel::engine
