#include "engine_llama/embedded_engine.h"

#include "engine_llama/embedded_core.h"
#include "engine_llama/self_test_record.h"
#include "system/cpu.h"

namespace gezel::engine_llama {
namespace {

using engine::Event;

class EmbeddedGeneration final : public engine::Generation {
 public:
  EmbeddedGeneration(std::shared_ptr<Core> core, std::shared_ptr<Run> run)
      : core_(std::move(core)), run_(std::move(run)) {}
  ~EmbeddedGeneration() override { core_->desk().cancel(*run_); }

  asio::awaitable<Event> next() override {
    const auto core = core_;
    const auto run = run_;
    while (true) {
      if (!run->events.empty()) {
        Event event = run->take();
        core->desk().taken(*run);
        co_return event;
      }
      if (run->place == Run::Place::over || run->place == Run::Place::abandoned) break;
      if (!co_await run->wakeup.wait()) break;
    }
    co_return engine::Failed{engine::make_error("cancelled", "The request was cancelled.")};
  }
  void cancel() override { core_->desk().cancel(*run_); }

 private:
  std::shared_ptr<Core> core_;
  std::shared_ptr<Run> run_;
};

class EmbeddedEngine final : public engine::Engine {
 public:
  explicit EmbeddedEngine(std::shared_ptr<Core> core) : core_(std::move(core)) {}
  ~EmbeddedEngine() override { core_->dispose(); }

  engine::Status status() const override { return core_->status(); }
  asio::awaitable<engine::EngineResult<>> ensure_ready() override { return core_->ensure_ready(); }
  asio::awaitable<engine::EngineResult<std::unique_ptr<engine::Generation>>> generate(
      prompt::GenerateRequest request) override {
    const auto core = core_;
    auto run = core->submit(std::move(request));
    if (!run) co_return std::unexpected(run.error());
    co_return std::make_unique<EmbeddedGeneration>(core, std::move(*run));
  }
  void refresh() override { core_->refresh(); }
  bool busy() const override { return core_->serves(); }
  asio::awaitable<engine::StopOutcome> stop() override { return core_->stop(engine::StopReason::stop); }
  asio::awaitable<std::optional<std::string>> worker_stats() override { return core_->worker_stats(); }
  std::optional<engine::CacheUse> cache_use() const override { return core_->cache_use(); }
  asio::awaitable<engine::EngineResult<engine::CacheReply>> cache(engine::CacheQuery query) override {
    return core_->cache(std::move(query));
  }
  asio::awaitable<engine::EngineResult<capacity::MemoryPlan>> plan(engine::MemoryWish wish) override {
    return core_->plan(wish);
  }
  std::string calibration() const override { return core_->calibration(); }
  bool calibrate() override { return core_->calibrate(); }
  void set_manners(engine::Manners manners) override { core_->set_manners(manners); }

 private:
  std::shared_ptr<Core> core_;
};

}  // namespace

std::unique_ptr<engine::Engine> make_embedded_engine(EmbeddedParts parts, std::string model_id,
                                                     EmbeddedOptions options) {
  return std::make_unique<EmbeddedEngine>(
      std::make_shared<Core>(std::move(parts), std::move(model_id), std::move(options)));
}

std::unique_ptr<engine::Engine> make_embedded_engine(asio::any_io_executor loop, asio::any_io_executor pool,
                                                     asio::any_io_executor slow_pool, std::string model_id,
                                                     models::ModelStore& store, const Clock& clock,
                                                     std::shared_ptr<engine::Admission> admission,
                                                     std::shared_ptr<engine::GpuGate> gpu,
                                                     EmbeddedOptions options) {
  EmbeddedParts parts{.loop = loop,
                      .pool = std::move(pool),
                      .slow_pool = std::move(slow_pool),
                      .clock = clock,
                      .timers = std::make_shared<engine::LoopTimers>(loop),
                      .launcher = make_process_launcher(loop),
                      .models = make_model_source(store, model_id),
                      .planner = make_planner(
                          options,
                          [home = options.home, program = options.engine_program, ending = options.ending] {
                            return failing_buffer_types(home, program, system::read_cpu().model,
                                                        kSelfTestLimit, ending);
                          },
                          [&store](const std::string& id) {
                            auto facts = make_model_source(store, id)->find();
                            return facts ? Result<models::InstalledModel>(std::move(facts->model))
                                         : std::unexpected(std::move(facts).error());
                          }),
                      .admission = std::move(admission),
                      .gpu = std::move(gpu)};
  return make_embedded_engine(std::move(parts), std::move(model_id), std::move(options));
}

}  // namespace gezel::engine_llama
