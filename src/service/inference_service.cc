#include "service/inference_service.h"

#include <boost/asio/thread_pool.hpp>
#include <charconv>
#include <stop_token>
#include <utility>

#include "base/log.h"
#include "engine/orphans.h"
#include "engine_llama/embedded_engine.h"
#include "engine_llama/launch_plan.h"
#include "service/service_core.h"
#include "system/cpu_share.h"
#include "system/gpu_tools.h"
#include "system/memory.h"
#include "system/pressure.h"

namespace gezel::service {
namespace {

// Two for engines that start, two for the short looks at the disk that requests wait for.
constexpr std::size_t kPoolThreads = 4;
// One for hashing and copying besides as many bundles as may be worked on.
constexpr std::size_t kSlowThreads = kMostBundles + 1;

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
  asio::awaitable<api::ApiResult<std::string>> default_model() override {
    const auto core = core_;
    auto name = co_await core->default_model();
    if (!name) co_return std::unexpected(name.error());
    co_return name->qualified();
  }
  asio::awaitable<json::value> describe_default() override {
    const auto core = core_;
    co_return co_await core->describe_default();
  }
  asio::awaitable<api::ApiResult<json::value>> pin_default(std::string model) override {
    const auto core = core_;
    co_return co_await core->pin_default(std::move(model));
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
  json::value memory(bool show_programs) override { return core_->memory(show_programs); }
  asio::awaitable<api::ApiResult<json::value>> memory_plan(PlanRequest request) override {
    const auto core = core_;
    co_return co_await core->memory_plan(std::move(request));
  }
  asio::awaitable<api::ApiResult<json::value>> worker_stats(std::string model) override {
    const auto core = core_;
    co_return co_await core->worker_stats(std::move(model));
  }
  asio::awaitable<api::ApiResult<json::value>> calibration(std::string model) override {
    const auto core = core_;
    if (model.empty()) co_return co_await core->calibrations();
    co_return co_await core->calibration(std::move(model));
  }
  asio::awaitable<api::ApiResult<json::value>> calibrate(std::string model) override {
    const auto core = core_;
    co_return co_await core->calibrate(std::move(model));
  }
  asio::awaitable<api::ApiResult<CacheAnswer>> cache(api::CacheRequest request) override {
    const auto core = core_;
    co_return co_await core->cache(std::move(request));
  }
  asio::awaitable<json::value> cache_stats() override {
    const auto core = core_;
    co_return co_await core->cache_stats();
  }
  asio::awaitable<api::ApiResult<void>> evict_session(std::string key) override {
    const auto core = core_;
    co_return co_await core->evict_session(std::move(key));
  }
  asio::awaitable<api::ApiResult<void>> clear_cache(std::string provider) override {
    const auto core = core_;
    co_return co_await core->clear_cache(std::move(provider));
  }
  asio::awaitable<api::ApiResult<json::value>> catalog(std::string path, std::string version) override {
    const auto core = core_;
    co_return co_await core->catalog(std::move(path), std::move(version));
  }
  asio::awaitable<json::value> catalog_updates() override {
    const auto core = core_;
    co_return co_await core->catalog_updates().status();
  }
  asio::awaitable<json::value> check_catalog() override {
    const auto core = core_;
    co_return co_await core->catalog_updates().check();
  }
  asio::awaitable<api::ApiResult<json::value>> set_catalog_updates(std::optional<bool> enabled,
                                                                   std::optional<std::string> url) override {
    const auto core = core_;
    co_return co_await core->catalog_updates().set(enabled, std::move(url));
  }
  Installs& installs() override { return core_->installs(); }
  Bundles& bundles() override { return core_->bundles(); }
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
  std::stop_source programs;  // ends those that threads of the pools wait for
  asio::thread_pool pool{kPoolThreads}, slow_pool{kSlowThreads};
};

// What models may take of this machine's memory. No GPU is used by the embedded engine.
engine::Admission::Machine machine_memory(std::optional<Bytes> budget) {
  const auto memory = system::read_memory();
  return {.pools = capacity::plan_budget({.ram = memory.total, .override_bytes = budget}),
          .total_ram = memory.total,
          .free_ram = memory.available};
}

engine_llama::EmbeddedOptions engine_options(const ServiceOptions& options, engine::Backend backend,
                                             std::shared_ptr<const catalog::Catalog> catalog) {
  engine_llama::EmbeddedOptions out;
  out.backend = backend;
  out.home = options.home;
  out.engine_program = options.engine_program;
  out.slots = options.slots;
  out.context = options.context;
  out.flash_attention = options.flash_attention;
  out.kv_type = options.kv_type;
  out.threads = options.threads;
  out.target_itl_ms = options.target_itl_ms;
  out.idle_timeout = options.idle_timeout;
  out.prompt_cache = options.prompt_cache;
  if (!out.prompt_cache.memory)
    out.prompt_cache.memory = capacity::default_prompt_cache(system::read_memory().total);
  if (options.ambient_quiet) out.ambient_quiet = *options.ambient_quiet;
  out.sandbox = options.sandbox;
  out.calibration = options.calibration;
  out.speculation = options.speculation;
  out.draft = options.draft;
  out.behaviors = options.behaviors;
  out.excluded_buffer_types = options.excluded_buffer_types;
  out.version = options.version;
  out.catalog = std::move(catalog);
  return out;
}

// What config.json says; flags and the environment count more.
void use_config(ServiceOptions& options) {
  auto [config, problems] = read_config(options.home);
  for (const auto& problem : problems)
    log_warn("a setting of config.json is not used", {{"reason", problem.message}});
  options.pins = std::move(config.pins);
  options.first_run_completed = config.first_run_completed;
  options.catalog_updates = std::move(config.catalog_updates);
  options.replicas = std::move(config.replicas);
  auto& cache = options.prompt_cache;
  if (!cache.memory) cache.memory = config.prompt_cache.memory;
  cache.per_tenant = cache.per_tenant || config.prompt_cache.per_tenant;
  if (!cache.disk) cache.disk = config.prompt_cache.disk;
  if (!cache.disk_all) cache.disk_all = config.prompt_cache.disk_all;
  auto& draft = options.draft;
  if (draft.model.empty()) draft.model = config.draft.model;
  if (!draft.type) draft.type = config.draft.type;
  if (!draft.most) draft.most = config.draft.most;
  auto& folders = options.installs.discovery_roots.user_folders;
  folders = join_model_dirs(std::move(folders), config.model_dirs);
  for (const auto& folder : folders) {
    std::error_code error;
    if (!fs::is_directory(folder, error))
      log_warn("a folder of models is not there", {{"folder", folder.string()}});
  }
}

// One model in so many workers, each made by `make` from its own options.
template <class Make>
std::unique_ptr<engine::Engine> in_workers(int count, const asio::any_io_executor& loop, const Clock& clock,
                                           engine_llama::EmbeddedOptions options, Make make) {
  if (count == 1) return make(options);
  options.replicas = count;
  return engine::make_replicas({.loop = loop, .clock = clock, .count = count, .make = [=](int replica) {
                                  auto mine = options;
                                  mine.replica = replica;
                                  return make(mine);
                                }});
}

std::shared_ptr<engine::NeighbourWatch> neighbour_watch(const asio::any_io_executor& loop, World& world,
                                                        const NeighbourTrial& trial,
                                                        std::shared_ptr<engine::PressureWatch> pressure) {
  return std::make_shared<engine::NeighbourWatch>(engine::NeighbourWatch::Parts{
      .loop = loop,
      .pool = world.pool.get_executor(),
      .clock = world.clock,
      .timers = std::make_shared<engine::LoopTimers>(loop),
      .read = [root = trial.root](std::span<const int> pids) { return system::read_cpu_times(pids, root); },
      .pressured = [pressure = std::move(pressure)] { return pressure->state().pressured(); },
      .patience = {.yield_ms = trial.yield.count(), .return_ms = trial.back.count()},
      .look = trial.look});
}

}  // namespace

std::optional<NeighbourTrial> parse_neighbour_trial(std::string_view text) {
  NeighbourTrial out;
  for (Millis* time : {&out.look, &out.yield, &out.back}) {
    std::int64_t number = 0;
    const auto [at, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || number < 1) return std::nullopt;
    *time = Millis(number);
    text.remove_prefix(static_cast<std::size_t>(at - text.data()));
    if (text.starts_with(',')) text.remove_prefix(1);
  }
  if (!text.empty()) out.root = text;
  return out;
}

std::unique_ptr<InferenceService> InferenceService::create(ServiceParts parts, ServiceOptions options) {
  return std::make_unique<Service>(std::move(parts), std::move(options));
}

Result<std::unique_ptr<InferenceService>> InferenceService::create(asio::any_io_executor loop,
                                                                   ServiceOptions options) {
  GEZEL_CHECK(make_private_folder(options.home));
  use_config(options);
  const auto world = std::make_shared<World>();
  const asio::any_io_executor pool = world->pool.get_executor(), slow_pool = world->slow_pool.get_executor();
  const auto admission = std::make_shared<engine::Admission>(
      engine::Admission::Parts{.loop = loop,
                               .clock = world->clock,
                               .timers = std::make_shared<engine::LoopTimers>(loop),
                               .machine = [budget = options.memory_budget] { return machine_memory(budget); },
                               .one_load_at_a_time = options.gpu.serialize_loads});
  GEZEL_CHECK(check_addresses(options.installs));
  GEZEL_TRY(const auto backend, choose_engine_backend(options.gpu.backend, backend_host()));
  const auto ask_tool = system::gpu_tool_runner(world->programs.get_token());
  const auto gpu = make_gpu_gate(loop, pool, world->clock, options.gpu, options.engine_program, ask_tool);
  const auto installs = make_install_parts(options.home, options.installs, options.memory_budget,
                                           options.version, world->clock, world->entropy);
  installs->timers = std::make_shared<engine::LoopTimers>(loop);
  const auto pressure = std::make_shared<engine::PressureWatch>(engine::PressureWatch::Parts{
      .loop = loop,
      .pool = pool,
      .clock = world->clock,
      .timers = std::make_shared<engine::LoopTimers>(loop),
      .sample = [] { return capacity::pressure_sample(system::read_pressure(), system::read_memory()); },
      .admission = admission});
  auto settings = engine_options(options, backend.backend, installs->catalog);
  settings.ending = world->programs.get_token();
  ServiceParts parts{
      .keep_alive = world,
      .loop = loop,
      .pool = pool,
      .slow_pool = slow_pool,
      .clock = world->clock,
      .entropy = world->entropy,
      .make_engine =
          [loop, pool, slow_pool, admission, gpu, world = world.get(), settings, replicas = options.replicas](
              const std::string& id, models::ModelStore& store) {
            const auto make = [=, &store](const engine_llama::EmbeddedOptions& mine) {
              return engine_llama::make_embedded_engine(loop, pool, slow_pool, id, store, world->clock,
                                                        admission, gpu, mine);
            };
            return in_workers(replicas.count(id), loop, world->clock, settings, make);
          },
      .admission = admission,
      .launch = engine_llama::launch_settings(settings),
      .pressure = pressure,
      .neighbour =
          options.good_neighbour ? neighbour_watch(loop, *world, options.neighbour_trial, pressure) : nullptr,
      .gpu = gpu,
      .survey_gpus =
          [home = options.home, program = options.engine_program, version = options.version,
           world = world.get(), ask_tool] {
            return survey_this_machine(home, program, version, world->clock.wall_now(), ask_tool);
          },
      .reap_orphans = [home = options.home] { engine::reap_orphans(home); },
      .installs = installs,
      .stop_programs = [world = world.get()] { world->programs.request_stop(); },
      .drain_pool =
          [world = world.get(), installs = installs.get()] {
            installs->drain();
            world->slow_pool.join();
            world->pool.join();
          }};
  return create(std::move(parts), std::move(options));
}

}  // namespace gezel::service
