#include "service/inference_service.h"

#include <boost/asio/thread_pool.hpp>
#include <utility>

#include "engine/orphans.h"
#include "engine_llama/embedded_engine.h"
#include "service/service_core.h"
#include "system/memory.h"
#include "system/pressure.h"

namespace gezel::service {
namespace {

// Two for engines (one may hash while another loads), one for imports and hashing of our own, one for the
// short looks at the disk that requests wait for.
constexpr std::size_t kPoolThreads = 4;

class Service final : public InferenceService {
 public:
  Service(ServiceParts parts, ServiceOptions options)
      : drain_(parts.drain_pool), core_(std::make_shared<ServiceCore>(std::move(parts), std::move(options))) {
    core_->start();
  }
  ~Service() override {
    core_->begin_stop();
    if (drain_) drain_();
  }

  asio::awaitable<api::ApiResult<std::unique_ptr<engine::Generation>>> chat(
      const api::ChatRequest& request) override {
    return chat_kept(core_, request.model, request.caller, request.generate);
  }
  asio::awaitable<void> keep_calls(std::string caller, std::string model, api::ChatMessage message) override {
    const auto core = core_;
    co_await core->keep_calls(std::move(caller), std::move(model), std::move(message));
  }
  asio::awaitable<json::value> list_models() override {
    const auto core = core_;
    co_return co_await core->list_models();
  }
  asio::awaitable<api::ApiResult<json::value>> retrieve_model(std::string id) override {
    const auto core = core_;
    co_return co_await core->retrieve_model(std::move(id));
  }
  json::value health() const override { return core_->health(); }
  json::value ps() override { return core_->ps(); }
  asio::awaitable<api::ApiResult<json::value>> stop_model(std::string model, bool force) override {
    const auto core = core_;
    co_return co_await core->stop_model(std::move(model), force);
  }
  asio::awaitable<api::ApiResult<json::value>> import_model(json::object request) override {
    const auto core = core_;
    co_return co_await core->import_model(std::move(request));
  }
  json::value quarantine() override { return core_->quarantine(); }
  api::ApiResult<json::value> clear_quarantine(std::string model) override {
    return core_->clear_quarantine(model);
  }
  json::value memory() override { return core_->memory(); }
  asio::awaitable<api::ApiResult<json::value>> memory_plan(std::string model,
                                                           engine::MemoryWish wish) override {
    const auto core = core_;
    co_return co_await core->memory_plan(std::move(model), wish);
  }
  asio::awaitable<api::ApiResult<json::value>> worker_stats(std::string model) override {
    const auto core = core_;
    co_return co_await core->worker_stats(std::move(model));
  }
  Installs& installs() override { return core_->installs(); }
  asio::awaitable<void> stop() override {
    const auto core = core_;
    co_await core->stop();
  }
  bool stopping() const override { return core_->stopping(); }

 private:
  // By value: a coroutine must not depend on what its caller passed by reference.
  static asio::awaitable<api::ApiResult<std::unique_ptr<engine::Generation>>> chat_kept(
      std::shared_ptr<ServiceCore> core, std::string model, std::string caller,
      prompt::GenerateRequest request) {
    co_return co_await core->chat(std::move(model), std::move(caller), std::move(request));
  }

  std::function<void()> drain_;
  std::shared_ptr<ServiceCore> core_;
};

// What a daemon's service owns.
struct World {
  SystemClock clock;
  SystemEntropy entropy;
  asio::thread_pool pool{kPoolThreads};
};

// What models may take of this machine's memory. No GPU is used by the embedded engine.
engine::Admission::Machine machine_memory(std::optional<Bytes> budget) {
  const auto memory = system::read_memory();
  return {.pools = capacity::plan_budget({.ram = memory.total, .override_bytes = budget}),
          .total_ram = memory.total,
          .free_ram = memory.available};
}

engine_llama::EmbeddedOptions engine_options(const ServiceOptions& options) {
  engine_llama::EmbeddedOptions out;
  out.home = options.home;
  out.engine_program = options.engine_program;
  out.slots = options.slots;
  out.context = options.context;
  out.flash_attention = options.flash_attention;
  out.kv_type = options.kv_type;
  out.threads = options.threads;
  out.target_itl_ms = options.target_itl_ms;
  out.idle_timeout = options.idle_timeout;
  if (options.ambient_quiet) out.ambient_quiet = *options.ambient_quiet;
  out.sandbox = options.sandbox;
  out.behaviors = options.behaviors;
  out.excluded_buffer_types = options.excluded_buffer_types;
  out.version = options.version;
  return out;
}

}  // namespace

std::unique_ptr<InferenceService> InferenceService::create(ServiceParts parts, ServiceOptions options) {
  return std::make_unique<Service>(std::move(parts), std::move(options));
}

Result<std::unique_ptr<InferenceService>> InferenceService::create(asio::any_io_executor loop,
                                                                   ServiceOptions options) {
  GEZEL_CHECK(make_private_folder(options.home));
  const auto world = std::make_shared<World>();
  const asio::any_io_executor pool = world->pool.get_executor();
  const auto admission = std::make_shared<engine::Admission>(engine::Admission::Parts{
      .loop = loop,
      .clock = world->clock,
      .timers = std::make_shared<engine::LoopTimers>(loop),
      .machine = [budget = options.memory_budget] { return machine_memory(budget); }});
  GEZEL_CHECK(check_addresses(options.installs));
  const auto installs = make_install_parts(options.home, options.installs, options.memory_budget,
                                           options.version, world->clock, world->entropy);
  ServiceParts parts{
      .keep_alive = world,
      .loop = loop,
      .pool = pool,
      .clock = world->clock,
      .entropy = world->entropy,
      .make_engine =
          [loop, pool, admission, world = world.get(), settings = engine_options(options)](
              const std::string& model_id, models::ModelStore& store) {
            return engine_llama::make_embedded_engine(loop, pool, model_id, store, world->clock, admission,
                                                      settings);
          },
      .admission = admission,
      .pressure = std::make_shared<engine::PressureWatch>(engine::PressureWatch::Parts{
          .loop = loop,
          .pool = pool,
          .clock = world->clock,
          .timers = std::make_shared<engine::LoopTimers>(loop),
          .sample = [] { return capacity::pressure_sample(system::read_pressure(), system::read_memory()); },
          .admission = admission}),
      .reap_orphans = [home = options.home] { engine::reap_orphans(home); },
      .installs = installs,
      .drain_pool =
          [world = world.get(), installs = installs.get()] {
            installs->drain();
            world->pool.join();
          }};
  return create(std::move(parts), std::move(options));
}

}  // namespace gezel::service
