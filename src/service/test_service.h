// service/test_service.h
//
// An InferenceService in a home of its own, with engines that only pretend, on one event loop that the test
// drives.
#pragma once
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "models/install_test_support.h"
#include "models/test_home.h"
#include "service/inference_service.h"
#include "service/service_parts.h"

namespace gezel::service::testing {

struct FakeGeneration final : engine::Generation {
  asio::awaitable<engine::Event> next() override { co_return engine::Done{}; }
  void cancel() override {}
};

// What a test sees and sets of one model's engine; outlives the engine itself.
struct FakeState {
  engine::Status status;
  bool busy = false;
  int generated = 0, stopped = 0, planned = 0, refreshed = 0;
  std::optional<capacity::MemoryPlan> plan;  // unset: it plans no memory
  std::optional<engine::EngineError> refuses;
  std::optional<std::string> stats;
  std::string calibration;
  bool calibrates = false;
  int calibrated = 0;
  engine::CacheReply cached;
  std::optional<engine::EngineError> cache_refuses;
  engine::CacheUse use;
  std::vector<engine::CacheQuery> cache_asked;
  prompt::GenerateRequest last;
};

class FakeEngine final : public engine::Engine {
 public:
  explicit FakeEngine(std::shared_ptr<FakeState> state) : state_(std::move(state)) {}
  engine::Status status() const override { return state_->status; }
  asio::awaitable<engine::EngineResult<>> ensure_ready() override {
    if (state_->refuses) co_return std::unexpected(*state_->refuses);
    state_->status.state = engine::State::ready;
    co_return engine::EngineResult<>{};
  }
  asio::awaitable<engine::EngineResult<std::unique_ptr<engine::Generation>>> generate(
      prompt::GenerateRequest request) override {
    if (state_->refuses) co_return std::unexpected(*state_->refuses);
    ++state_->generated;
    state_->last = std::move(request);
    state_->status.state = engine::State::ready;
    co_return std::make_unique<FakeGeneration>();
  }
  bool busy() const override { return state_->busy; }
  void refresh() override { ++state_->refreshed; }
  asio::awaitable<engine::StopOutcome> stop() override {
    ++state_->stopped;
    state_->status = {};
    state_->busy = false;
    co_return engine::StopOutcome{true};
  }
  asio::awaitable<engine::EngineResult<capacity::MemoryPlan>> plan(engine::MemoryWish) override {
    ++state_->planned;
    if (state_->plan) co_return *state_->plan;
    co_return std::unexpected(engine::make_error("unsupported-feature", "no plans here"));
  }
  asio::awaitable<std::optional<std::string>> worker_stats() override { co_return state_->stats; }
  std::string calibration() const override { return state_->calibration; }
  bool calibrate() override {
    state_->calibrated += state_->calibrates ? 1 : 0;
    return state_->calibrates;
  }
  std::optional<engine::CacheUse> cache_use() const override { return state_->use; }
  asio::awaitable<engine::EngineResult<engine::CacheReply>> cache(engine::CacheQuery query) override {
    state_->cache_asked.push_back(std::move(query));
    if (state_->cache_refuses) co_return std::unexpected(*state_->cache_refuses);
    co_return state_->cached;
  }

 private:
  std::shared_ptr<FakeState> state_;
};

class ServiceTest : public models::testing::StoreTest {
 protected:
  ~ServiceTest() override {
    if (service) wait(service->stop());
  }

  void start(std::function<void()> reap_orphans = {}) {
    options.home = home.path();
    options.version = "1.2.3";
    const asio::any_io_executor executor = loop.get_executor();
    installs->downloads = executor;
    if (!installs->questions) installs->questions = executor;
    if (!installs->headers) installs->headers = executor;
    if (!installs->catalog) {
      installs->catalog = std::make_shared<const catalog::Catalog>(
          catalog::CatalogOptions{.user_folder = home.path() / "catalog", .bundled = {}});
    }
    installs->transfers = std::shared_ptr<const downloads::Transfers>(std::shared_ptr<void>(), &transfers);
    service = InferenceService::create(
        ServiceParts{.keep_alive = nullptr,
                     .loop = executor,
                     .pool = executor,
                     .slow_pool = slow_hangs ? slow.get_executor() : executor,
                     .clock = clock,
                     .entropy = entropy,
                     .make_engine = [this](const std::string& id,
                                           models::ModelStore& its) -> std::unique_ptr<engine::Engine> {
                       service_store = &its;
                       return std::make_unique<FakeEngine>(engine_of(id));
                     },
                     .admission = admission,
                     .reap_orphans = std::move(reap_orphans),
                     .installs = installs,
                     .drain_pool = {}},
        options);
  }
  void settle() {
    loop.restart();
    loop.poll();
  }

  // Runs a coroutine to its end.
  template <class T>
  T wait(asio::awaitable<T> work) {
    std::optional<T> result;
    // Named, because the coroutine reads its captures from the lambda for as long as it runs.
    const auto run = [&](asio::awaitable<T> inner) -> asio::awaitable<void> {
      result = co_await std::move(inner);
    };
    asio::co_spawn(loop, run(std::move(work)), asio::detached);
    settle();
    return std::move(result).value();
  }
  void wait(asio::awaitable<void> work) {
    bool done = false;
    asio::co_spawn(loop, std::move(work), [&](const std::exception_ptr&) { done = true; });
    settle();
    EXPECT_TRUE(done);
  }

  std::shared_ptr<FakeState> engine_of(const std::string& id) {
    auto& state = engines[id];
    if (!state) state = std::make_shared<FakeState>();
    return state;
  }
  auto chat(std::string_view model) {
    api::ChatRequest request;
    request.model = model;
    request.generate.messages = {{.role = prompt::Role::user,
                                  .content = {},
                                  .reasoning = {},
                                  .tool_calls = {},
                                  .sampled = {},
                                  .tool_call_id = {},
                                  .name = {}}};
    return wait(service->chat(request));
  }
  void install(const std::string& id, const std::string& mode = "copy") {
    ASSERT_TRUE(import(files.write(id + ".gguf", models::testing::tiny_model()), mode, id));
  }
  std::vector<std::string> listed() {
    std::vector<std::string> out;
    const json::value list = wait(service->list_models());
    for (const auto& entry : list.at("data").as_array()) out.emplace_back(entry.at("id").as_string());
    return out;
  }

  // Hashing and copying go on only where a test lets them.
  void let_slow_work_end() {
    do {
      settle();
      slow.restart();
    } while (slow.poll() > 0);
  }

  asio::io_context loop{1}, slow{1};
  bool slow_hangs = false;  // set before start()
  ServiceOptions options;
  // Downloads come from memory, by the last segment of the address.
  models::testing::MemoryClient client;
  downloads::testing::SharedClock waiting_clock;
  downloads::testing::FakeWaiter waiter{waiting_clock};
  downloads::Transfers transfers{client, waiter, entropy};
  std::shared_ptr<engine::Admission> admission;  // null: no memory is planned
  std::shared_ptr<InstallParts> installs = std::make_shared<InstallParts>();
  std::map<std::string, std::shared_ptr<FakeState>> engines;
  std::unique_ptr<InferenceService> service;
  models::ModelStore* service_store = nullptr;  // the service's own, once a model was used
};

}  // namespace gezel::service::testing
