// A start, from a model id to a worker that is ready: find the model, refuse what is known to be bad, plan,
// spawn, say hello, load. From there on it is frames, the worker's end or a deadline that settle it,
// whichever comes first.
#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "base/ids.h"
#include "base/log.h"
#include "engine/on_pool.h"
#include "engine_llama/dry_run.h"
#include "engine_llama/embedded_core.h"
#include "engine_llama/launch_tuning.h"
#include "engine_llama/prompt_cache_folder.h"
#include "kvcache/store.h"

namespace gezel::engine_llama {

using engine::EngineError;
using engine::EngineResult;
using engine::make_error;
using engine::on_pool;
using engine::State;
using engine::StopReason;

namespace {

EngineError from_store(Error error) {
  if (is_about_reading(error)) return unreadable_model(std::move(error));
  return make_error(error.code == "model_not_found" ? "model_not_found" : "model-invalid",
                    std::move(error.message), std::move(error.param));
}

EngineError aborted_error() {
  return make_error("cancelled", "The start was given up: nobody waits for it any more.");
}

// What it would get once nobody else is busy: the shape that it waits for.
capacity::MemoryPlan plan_without_work(capacity::LaunchInput input) {
  for (auto& resident : input.machine.residents) resident.busy = resident.draining = false;
  return capacity::plan_launch(input);
}

constexpr int kPlanPasses = 4;
using capacity::kCellPadding;
using capacity::Tokens;

std::string content_key(const ModelFacts& facts) {
  const auto identity =
      fmt::format("{}:{}", facts.model.weights.string(), engine::fingerprint_stamp(facts.stamp));
  return sha256_hex(identity).substr(0, 24);
}

}  // namespace

std::shared_ptr<Core::Start> Core::begin_start() {
  auto start = start_ = std::make_shared<Start>(parts_.loop);
  set_state(State::starting);
  asio::co_spawn(
      parts_.loop, run_start(start), [self = shared_from_this(), start](const std::exception_ptr& thrown) {
        if (!thrown || self->start_ != start) return;
        if (!self->launch_) self->seat_.reset();
        self->settle(
            std::unexpected(make_error("engine-internal", "The engine's start failed unexpectedly.")));
      });
  return start;
}

// The start is over, at once and for everybody who waits.
void Core::settle(EngineResult<> result) {
  const auto start = std::exchange(start_, nullptr);
  if (!start) return;
  start_timer_->cancel();
  note_waiting_over();
  grow_to_ = keep_window_ = 0;
  start->result = result;
  start->settled.notify();
  if (parts_.admission) parts_.admission->changed();
  if (uses_gpu()) parts_.gpu->arbiter().changed();
  if (disposed_) return;
  if (result) {
    set_state(State::ready);
    mark_used();
    files_checked_at_ = ready_at_ = parts_.clock.now();
    if (considered_ > granted_.context_per_slot) missed_ = Missed{considered_, ready_at_};
    if (files_changed_) want_reload(Reload::files, true);
    desk_.open(granted_.slots, granted_.context_per_slot, vocabulary_, load_.style);
    settle_reload();
    if (state_ != State::ready) return;
    begin_calibration();
    if (loaded_->integrity == models::Integrity::unverified) verify_in_background(*loaded_);
    return;
  }
  set_state(launch_ ? State::stopping : State::stopped);
  if (start->aborted) {
    // Requests that came after everybody else had left are no part of this failure.
    if (!launch_ && desk_.waiting() > 0) begin_start();
    return;
  }
  log_warn(
      "a model could not be loaded",
      {{"model", model_id_}, {"code", result.error().error.code}, {"reason", result.error().error.message}});
  desk_.fail_all([&](const Run&) { return result.error(); });
}

void Core::abort_start_if_unwanted() {
  if (!start_ || start_->waiters > 0 || !desk_.empty()) return;
  start_->aborted = true;
  settle(std::unexpected(aborted_error()));
  if (launch_) stop_launch(StopReason::startup_abort);
}

asio::awaitable<EngineResult<ModelFacts>> Core::find_model(std::shared_ptr<Start> start) {
  if (const auto wait = budget_.refuse(parts_.clock.now())) {
    auto error = make_error(
        "engine-restart-exhausted",
        fmt::format("The engine crashed {} times within a minute. It may be started again in {} s.",
                    engine::RestartBudget::kFailures, (wait->count() + 999) / 1000));
    error.retry_after_ms = wait->count();
    co_return std::unexpected(std::move(error));
  }
  files_changed_ = false;  // what changes from here on is news
  auto found = co_await on_pool(parts_.pool, [models = parts_.models] { return models->find(); });
  if (start->result) co_return std::unexpected(aborted_error());
  if (!found) co_return std::unexpected(from_store(std::move(found).error()));
  if (refusal_ && refusal_->weights == found->model.weights && refusal_->stamp.size == found->stamp.size &&
      refusal_->stamp.mtime_ns == found->stamp.mtime_ns)
    co_return std::unexpected(refusal_->error);
  refusal_.reset();
  identity_ = {std::string(engine::backend_name(options_.backend)),
               engine::fingerprint_file(options_.engine_program), model_id_,
               engine::fingerprint_stamp(found->stamp)};
  if (const auto reason = quarantine_.reason(identity_))
    co_return std::unexpected(make_error("engine-quarantined", "Not started: " + *reason + "."));
  co_return std::move(*found);
}

asio::awaitable<void> Core::run_start(std::shared_ptr<Start> start) {
  const auto self = shared_from_this();
  while (true) {
    auto facts = co_await find_model(start);
    if (start->result) co_return;
    if (!facts) co_return settle(std::unexpected(facts.error()));
    loaded_ = *facts;
    if (facts->integrity == models::Integrity::changed) verify_in_background(*facts);

    if (uses_gpu()) {
      auto passed = co_await pass_gpu_gate(start);
      if (start->result) co_return;
      if (!passed) co_return settle(std::unexpected(passed.error()));
    }
    auto plan = co_await on_pool(parts_.pool,
                                 [planner = parts_.planner, model = facts->model] { return planner(model); });
    if (start->result) co_return;
    if (!plan) co_return settle(std::unexpected(plan.error()));
    // More threads than processors would only wait for each other.
    if (!options_.threads) plan->threads = share_of_cores(plan->threads, options_.replicas);
    // The seat is another start's when this one was given up while it waited.
    auto admitted = co_await admit(start, *facts, *plan);
    if (start->result) co_return;
    if (!admitted) co_return settle(std::unexpected(admitted.error()));
    if (!*admitted) continue;
    if (auto launched = launch(*facts, *plan); !launched) {
      seat_.reset();
      settle(std::unexpected(launched.error()));
    }
    co_return;
  }
}

// Before the memory is planned: an engine that makes way for this one still holds its own.
asio::awaitable<EngineResult<>> Core::pass_gpu_gate(std::shared_ptr<Start> start) {
  const auto self = shared_from_this();
  // No request waits longer for it than it may.
  waiting_ = "waiting for the GPU";
  desk_.note_waiting(0, waiting_);
  auto passed = co_await parts_.gpu->enter(engine::GpuSlot::llm, [start] { return !start->result; });
  if (!start->result) note_waiting_over();  // else waiting_ is another start's by now
  co_return passed;
}

engine::Holder Core::holder() {
  const auto with = [weak = weak_from_this()](auto call) {
    return [weak, call](auto... arguments) {
      const auto self = weak.lock();
      using Answer = decltype(call(*self, arguments...));
      if constexpr (!std::is_void_v<Answer>)
        return self ? call(*self, arguments...) : Answer{};
      else if (self)
        call(*self, arguments...);
    };
  };
  return {
      .key = ledger_key(),
      .name = model_id_,
      .busy = with([](Core& core) { return core.works() || (!core.gives_way_ && core.desk_.waiting() > 0); }),
      .lane = with([](Core& core) {
        const auto lane = core.desk_.lane();
        return lane || core.cache_questions_.computing() == 0 ? lane : prompt::Lane::background;
      }),
      .hits_last_minute = with([](Core& core) { return core.hits_last_minute(); }),
      .idle_ms = with([](Core& core) {
        return !core.busy()
                   ? std::int64_t{core.idle_.idle_for(core.parts_.clock.now(), core.parts_.clock.wall_now())
                                      .count()}
                   : std::int64_t{0};
      }),
      .give_way = with([](Core& core, bool on) {
        core.gives_way_ = on;
        core.desk_.hold(on || core.reload_holds_);
        core.settle_reload();
      }),
      .unload = with([](Core& core) { core.stop_launch(StopReason::evict); }),
      .cache = with([](Core& core) { return core.cache_memory(); }),
      .trim = with([](Core& core) { core.trim_cache(); })};
}

// Blocking work and a worker of its own, but nothing of the engine's state: also for plans of a model that is
// loaded at this moment.
asio::awaitable<std::optional<capacity::DryRun>> Core::dry_run(const ModelFacts& facts,
                                                               const protocol::Load& load) {
  const auto self = shared_from_this();
  const auto engine = engine::fingerprint_file(options_.engine_program);
  const DryRunRecord record(options_.home / "engines" / "embedded" / "dry-runs" /
                            (content_key(facts) + ".json"));
  // One at a time: what one finds the next need not measure.
  while (measuring_) {
    if (!co_await measured_.wait()) co_return std::nullopt;
  }
  struct Measuring {
    Core& core;
    explicit Measuring(Core& c) : core(c) { core.measuring_ = true; }
    ~Measuring() {
      core.measuring_ = false;
      core.measured_.notify();
    }
  };
  const Measuring measuring(*this);
  auto known = co_await on_pool(parts_.pool, [record, engine, load] { return record.find(engine, load); });
  if (known) co_return known;
  if (unmeasurable_ == content_key(facts)) co_return std::nullopt;
  std::unique_ptr<engine::Seat> seat;
  if (parts_.admission) {
    seat = co_await parts_.admission->enter_to_measure(ledger_key());
    if (!seat) co_return std::nullopt;
  }
  auto measured = co_await ask_worker(parts_, options_.engine_program, load);
  seat.reset();
  if (!measured) {
    // The load itself will say what is wrong with the file; until then estimates must do.
    const auto& code = measured.error().error.code;
    if (code == "engine-crashed" || code == "model-invalid") unmeasurable_ = content_key(facts);
    log_info("a model could not be measured before its load",
             {{"model", model_id_}, {"reason", measured.error().error.message}});
    co_return std::nullopt;
  }
  auto kept = co_await on_pool(
      parts_.pool, [record, engine, load, run = *measured] { return record.keep(engine, load, run); });
  if (!kept) log_warn("a measurement could not be kept", {{"reason", kept.error().message}});
  co_return *measured;
}

capacity::LaunchInput Core::named_input(const ModelFacts& facts, const LaunchPlan& plan) const {
  auto input = *plan.capacity;
  input.model.key = ledger_key();
  input.model.name = facts.model.name.empty() ? model_id_ : facts.model.name;
  input.machine = parts_.admission->state_for(input.model.key);
  return input;
}

capacity::MachineState Core::machine_for(For what) const {
  return what == For::load ? parts_.admission->state_for(ledger_key())
                           : parts_.admission->state_without_model(ledger_key());
}

// The shape by the file's own figures first, then with what a dry run of that shape measured, until the shape
// stays: a measurement may show that more or less fits.
asio::awaitable<capacity::LaunchInput> Core::plan_input(const ModelFacts& facts, LaunchPlan plan, For what) {
  auto input = named_input(facts, plan);
  for (int pass = 0; pass < kPlanPasses; ++pass) {
    input.machine = machine_for(what);
    auto shape = capacity::plan_launch(input);
    if (shape.decision == capacity::Decision::no) shape = plan_without_work(input);
    plan.kv_type = shape.kv_type;
    plan.slots = std::max(1, shape.slots);
    plan.context = std::max<std::int64_t>(kCellPadding, shape.context);
    if (input.dry_run && input.dry_run->slots == plan.slots && input.dry_run->context == plan.context) break;
    auto measured = co_await dry_run(facts, make_load(facts, plan));
    if (!measured) break;
    input.dry_run = measured;
    input.model.draft_weights = 0;  // counted in it
  }
  co_return input;
}

asio::awaitable<EngineResult<capacity::MemoryPlan>> Core::plan(engine::MemoryWish wish) {
  const auto self = shared_from_this();
  auto facts = co_await on_pool(parts_.pool, [models = parts_.models] { return models->find(); });
  if (!facts) co_return std::unexpected(from_store(std::move(facts).error()));
  if (refusal_ && refusal_->weights == facts->model.weights && refusal_->stamp == facts->stamp)
    co_return std::unexpected(refusal_->error);
  auto launch_plan = co_await on_pool(
      parts_.pool, [planner = parts_.planner, model = facts->model] { return planner(model); });
  if (!launch_plan) co_return std::unexpected(launch_plan.error());
  if (!parts_.admission || !launch_plan->capacity)
    co_return std::unexpected(make_error("unsupported-feature", "This engine plans no memory."));
  auto& settings = launch_plan->capacity->settings;
  if (wish.slots) settings.slots = wish.slots;
  if (wish.context) settings.context.model_override = wish.context;
  const auto input = co_await plan_input(*facts, *launch_plan, For::preview);
  co_return capacity::plan_launch(input);
}

// The window that waiting requests need is tried first. What no memory can be had for is left to those who
// need it: the model is loaded for the others.
asio::awaitable<EngineResult<bool>> Core::admit(std::shared_ptr<Start> start, const ModelFacts& facts,
                                                LaunchPlan& plan) {
  const auto self = shared_from_this();
  if (!parts_.admission || !plan.capacity) co_return true;
  auto input = named_input(facts, plan);
  refuse_beyond_limit(input);
  if (start->result) co_return std::unexpected(aborted_error());
  const auto needed = desk_.needed_windows();
  considered_ = needed.empty() ? 0 : needed.front();
  std::optional<EngineResult<engine::Admission::Admitted>> admitted;
  for (const Tokens window : windows_to_try()) {
    const bool must = window > 0;  // the last is 0: whatever fits
    input.settings.context.needed = must ? std::optional(window) : std::nullopt;
    input.machine = parts_.admission->state_for(input.model.key);
    if (must && plan_without_work(input).decision == capacity::Decision::no) continue;
    plan.capacity = input;
    input = co_await plan_input(facts, plan, For::load);
    if (start->result) co_return std::unexpected(aborted_error());
    // With what was measured it may not fit after all.
    if (must && plan_without_work(input).decision == capacity::Decision::no) continue;
    auto me = holder();
    me.name = input.model.name;
    if (!start->queued_at) start->queued_at = parts_.clock.now();
    admitted = co_await parts_.admission->enter(
        {.holder = std::move(me),
         .plan =
             [asked = input](const capacity::MachineState& state) mutable {
               asked.machine = state;
               return capacity::plan_launch(asked);
             },
         .wanted = [start] { return !start->result; },
         .notice = [this, self](const engine::Waiting& waiting) { note_waiting(waiting); },
         .since = start->queued_at,
         // A further worker that no request waits for.
         .spare = [this, self] { return options_.replica > 0 && desk_.empty(); }});
    if (start->result) co_return std::unexpected(aborted_error());  // waiting_ is another start's by now
    note_waiting_over();
    if (*admitted || !must || admitted->error().error.code != "capacity-denied") break;
  }
  if (!*admitted) co_return std::unexpected(std::move(*admitted).error());
  // It may have waited for long. The seat is not this engine's yet: given up, it is free at once.
  files_changed_ = false;
  const auto now = co_await on_pool(parts_.pool, [models = parts_.models] { return models->find(); });
  if (start->result) co_return std::unexpected(aborted_error());
  const auto needed_now = desk_.needed_windows();
  const bool more = !needed_now.empty() && needed_now.front() > considered_;
  const bool same = now && same_files(*now, facts) && !more;
  if (!same && ++start->rounds < kStartRounds) co_return false;
  seat_ = std::move((*admitted)->seat);
  // Meant for the process before, which was asked while it was dying. This load makes way for nobody yet.
  gives_way_ = false;
  desk_.hold(reload_holds_);
  plan.memory = std::move((*admitted)->plan);
  const auto& memory = *plan.memory;
  below_floor_ = memory.below_floor;
  launch_input_ = input;
  launch_input_->settings.context.needed.reset();
  plan.slots = memory.slots;
  plan.context = memory.context;
  plan.kv_bytes = memory.bytes.kv;
  plan.kv_type = memory.kv_type;
  plan.cache_bytes = memory.bytes.cache;
  process_bytes_ = input.dry_run ? input.dry_run->process : 0;
  log_.line("memory " + capacity::explain(memory, input.model.name));
  for (const auto& note : memory.notes)
    (note.level == capacity::NoteLevel::warn ? log_warn : log_info)(note.text, {{"model", model_id_}});
  co_return true;
}

void Core::note_waiting(const engine::Waiting& waiting) {
  waiting_ = waiting.ahead > 0 ? fmt::format("{}, {} ahead", waiting.reason, waiting.ahead) : waiting.reason;
  log_info("a model waits for memory", {{"model", model_id_}, {"reason", waiting_}});
  desk_.note_waiting(waiting.ahead, waiting_);
}

void Core::note_waiting_over() {
  waiting_.clear();
  desk_.note_waiting(0, {});
}

protocol::Load Core::make_load(const ModelFacts& facts, const LaunchPlan& plan) const {
  const auto& model = facts.model;
  protocol::Load load;
  load.model_path = model.weights.string();
  for (const auto& file : model.files) load.files.push_back(file.string());
  load.slots = plan.slots;
  load.context_per_slot = plan.context;
  load.threads = plan.threads;
  load.flash_attention = options_.flash_attention ? options_.flash_attention : plan.flash_attention;
  load.kv_type = std::string(capacity::kv_type_name(plan.kv_type));
  if (const auto setting = chosen_setting(plan.calibration, load.kv_type)) {
    load.flash_attention = setting->flash_attention;
    load.threads = setting->threads;
    load.known_steps = known_steps(plan.calibration, *setting);
  }
  if (plan.kv_type != capacity::KvType::f16) load.flash_attention = true;
  if (options_.target_itl_ms) load.target_itl_ms = *options_.target_itl_ms;
  load.speculation = options_.speculation;
  if (!plan.draft.files.empty()) {
    load.draft = {plan.draft.files.front().string(), plan.draft.most, plan.draft.required};
    for (const auto& file : plan.draft.files) {
      if (std::ranges::find(load.files, file.string()) == load.files.end())
        load.files.push_back(file.string());
    }
  }
  load.excluded_buffer_types = plan.excluded_buffer_types;
  load.sandbox = options_.sandbox;
  load.style = plan.profile.style;
  load.chat_template_override = plan.chat_template;
  load.tuning = plan.profile.tuning;
  load.named_tunings = plan.profile.named;
  load.tuning_profile = plan.profile.tuning_profile;
  load.cache.off = options_.prompt_cache.off;
  load.cache.verify = options_.prompt_cache.verify;
  load.cache.host_bytes = plan.cache_bytes;
  load.cache.disk = options_.prompt_cache.disk.value_or(true);
  load.cache.disk_bytes = options_.prompt_cache.disk_all.value_or(kDiskCacheBytes);
  load.cache.identity = content_key(facts);
  load.cache.backend = std::string(engine::backend_name(options_.backend));
  if (load.cache.disk && load.cache.host_bytes > 0) load.cache.stop_ms = kSaveTime.count();
  return load;
}

EngineResult<> Core::launch(const ModelFacts& facts, const LaunchPlan& plan) {
  load_ = make_load(facts, plan);
  calibration_ = plan.calibration;
  draft_note_ = plan.draft.note;
  const auto cache = prompt_cache_folder(options_.home, content_key(facts), load_.kv_type, options_.replica);
  if (auto made = make_private_folder(cache); made)
    load_.cache_folder = cache.string();
  else
    log_warn("the engine runs without a cache folder", {{"reason", made.error().message}});
  prune_prompt_cache();
  const auto& model = facts.model;
  auto profile = profiles::to_json_object(plan.profile);
  if (auto tuning = launch_tuning_json(plan.tuning); !tuning.empty()) profile["launch"] = std::move(tuning);
  profile_ = to_json(profile);

  const json::object diagnostics{{"model", model_id_},       {"backend", identity_.backend},
                                 {"slots", plan.slots},      {"contextPerSlot", plan.context},
                                 {"threads", load_.threads}, {"sizeBytes", model.size_bytes},
                                 {"kvBytes", plan.kv_bytes}, {"availableBytes", plan.available_bytes}};
  // After a hard lock-up of the machine this line is the only evidence.
  log_.line("plan " + to_json(diagnostics));
  log_.line("profile " + profile_);
  log_info("loading a model", {{"model", model_id_},
                               {"size", format_bytes(model.size_bytes)},
                               {"slots", std::to_string(plan.slots)},
                               {"context", std::to_string(plan.context)},
                               {"threads", std::to_string(load_.threads)},
                               {"profile", plan.profile.name.empty() ? "none" : plan.profile.name}});

  auto process = parts_.launcher->launch(options_.engine_program);
  if (!process) {
    log_error("the engine cannot be started", {{"reason", process.error().message}});
    return std::unexpected(make_error(
        "engine-launch", fmt::format("The engine program '{}' could not be started. `gezel doctor` says why.",
                                     options_.engine_program.filename().string())));
  }
  ++generation_;
  stage_ = Stage::hello;
  threads_ = load_.threads;
  nice_ = 0;
  granted_ = {};
  vocabulary_ = plan.vocabulary;
  launched_at_ = parts_.clock.now();
  stats_asked_ = launched_at_;
  deadline_.emplace(launched_at_, options_.startup_timeout);
  const auto pid = (*process)->pid();
  launch_ = WorkerLaunch::begin(parts_.loop, *parts_.timers, parts_.clock, std::move(*process),
                                {.frame =
                                     [weak = weak_from_this()](protocol::Frame frame) {
                                       if (auto self = weak.lock()) self->on_frame(std::move(frame));
                                     },
                                 .line =
                                     [weak = weak_from_this()](std::string_view line) {
                                       if (auto self = weak.lock()) self->log_.line(line);
                                     },
                                 .ended =
                                     [weak = weak_from_this()](const engine::ExitSnapshot& snapshot) {
                                       if (auto self = weak.lock()) self->on_ended(snapshot);
                                     }});
  launch_->snapshot().model = model_id_;
  launch_->snapshot().diagnostics = diagnostics;
  if (uses_gpu())
    gpu_hold_ = parts_.gpu->arbiter().add(engine::GpuSlot::llm, ledger_key(),
                                          [weak = weak_from_this()]() -> asio::awaitable<void> {
                                            if (const auto self = weak.lock())
                                              co_await self->stop(StopReason::evict);
                                          });
  pid_file_ = std::make_unique<engine::PidFile>(options_.home, "embedded", worker_name(), pid);
  log_.line(fmt::format("spawned pid {}", pid));
  apply_manners();
  launch_->send(protocol::encode(protocol::FrameType::hello,
                                 protocol::Hello{protocol::kProtocolVersion, options_.version}));
  arm_start_deadline();
  return {};
}

// Workers keep to their own share; together they may have more than the budget until here.
void Core::prune_prompt_cache() {
  asio::co_spawn(
      parts_.loop,
      [pool = parts_.pool, root = prompt_cache_root(options_.home),
       budget = load_.cache.disk_bytes]() -> asio::awaitable<void> {
        const auto report =
            co_await on_pool(pool, [root, budget] { return kvcache::prune_records(root, budget); });
        if (report.removed > 0)
          log_info("old computed prompts were removed from disk",
                   {{"records", std::to_string(report.removed)}, {"left", format_bytes(report.after)}});
      },
      asio::detached);
}

void Core::arm_start_deadline() {
  if (!start_ || !deadline_) return;
  auto deadline = deadline_->deadline();
  if (stage_ == Stage::hello) deadline = std::min(deadline, launched_at_ + kHelloTime);
  start_timer_->arm(deadline, [this] {
    const auto waited = std::chrono::duration_cast<std::chrono::seconds>(parts_.clock.now() - launched_at_);
    const auto phase = stage_ == Stage::hello       ? "start-up"
                       : deadline_->phase().empty() ? "loading"
                                                    : deadline_->phase();
    log_error("a model did not become ready in time", {{"model", model_id_}, {"phase", phase}});
    settle(std::unexpected(
        make_error("engine-startup-timeout",
                   fmt::format("The model was not ready after {} s; it was last seen in '{}' at {} %. A "
                               "slow disk or too little memory is the usual reason.",
                               waited.count(), phase,
                               static_cast<int>(std::clamp(deadline_->value(), 0.0, 1.0) * 100)))));
    stop_launch(StopReason::startup_abort);
  });
}

// --- trust in the file

void Core::verify_in_background(const ModelFacts& facts) {
  if (std::exchange(verifying_, true)) return;
  asio::co_spawn(parts_.loop, verify(facts), asio::detached);
}

asio::awaitable<void> Core::verify(ModelFacts facts) {
  const auto self = shared_from_this();
  log_info("checking a model's files", {{"model", model_id_}});
  const auto checked = co_await on_pool(
      parts_.slow_pool, [models = parts_.models, model = facts.model, go_on = keep_verifying_] {
        return models->verify(model, [go_on] { return go_on->load(); });
      });
  verifying_ = false;
  if (disposed_) co_return;
  if (checked) {
    log_info("a model's files are as they should be", {{"model", model_id_}});
    if (loaded_ && loaded_->stamp == facts.stamp) loaded_->integrity = models::Integrity::unchanged;
  } else if (checked.error().code == "model-invalid" && !is_about_reading(checked.error())) {
    refuse_model(facts.stamp, facts.model.weights, from_store(checked.error()));
  } else {
    log_warn("a model's files could not be checked",
             {{"model", model_id_}, {"reason", checked.error().message}});
  }
}

void Core::refuse_model(const FileStamp& stamp, const fs::path& weights, EngineError error) {
  log_error("a model is refused", {{"model", model_id_}, {"reason", error.error.message}});
  refusal_ = Refusal{weights, stamp, error};
  settle(std::unexpected(error));
  desk_.fail_all([&](const Run& run) {
    auto mine = error;
    mine.characters_delivered = run.characters;
    return mine;
  });
  if (launch_) stop_launch(StopReason::evict);
}

}  // namespace gezel::engine_llama
