// Start-up is ordered by what the sandbox allows: the load frame names the files while the process has one
// thread, Landlock follows at once, then the threads start and seccomp closes the rest, and only then the
// first byte of the model is read.
#include "worker/worker.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <ctime>
#include <functional>
#include <memory>
#include <thread>

#include "base/heap.h"
#include "base/json.h"
#include "base/log.h"
#include "calibration/bench_context.h"
#include "llama/llama.h"
#include "protocol/frame.h"
#include "protocol/messages.h"
#include "scheduler/scheduler.h"
#include "system/process_usage.h"
#include "system/thread_time.h"
#include "template/chat_template.h"
#include "worker/cache_desk.h"
#include "worker/cache_start.h"
#include "worker/commands.h"
#include "worker/constraints.h"
#include "worker/context_decoder.h"
#include "worker/decode_loop.h"
#include "worker/draft_start.h"
#include "worker/exit_codes.h"
#include "worker/frame_sink.h"
#include "worker/guarded_thread.h"
#include "worker/inbox.h"
#include "worker/intake.h"
#include "worker/intake_guard.h"
#include "worker/mask_thread.h"
#include "worker/outbox.h"
#include "worker/output_text.h"
#include "worker/reader.h"
#include "worker/sandbox.h"

#ifndef GEZEL_VERSION
#define GEZEL_VERSION "0"
#endif

namespace gezel::worker {
namespace {

using protocol::FrameType;

bool send_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

protocol::Failed load_failure(const Error& error) {
  protocol::Failed failed;
  failed.code = error.code;
  failed.kind = error.code;
  std::replace(failed.kind.begin(), failed.kind.end(), '-', '_');
  failed.message = error.message;
  failed.param = error.param;
  return failed;
}

// --- the end by a runaway template

constexpr Millis kLookEvery{1'000};
// From an overrun to the end, when not even the guard's thread gets on: the memory that the report needs may
// be locked by the thread that ran off its stack.
constexpr Millis kReportTime{2'000};

IntakeGuard* overrun_guard = nullptr;

// In a signal handler or in an allocator.
[[noreturn]] void hand_over(IntakeGuard::Cause cause) {
  constexpr std::string_view kLine = "chat template or tokenizer ran away\n";  // the daemon knows it
  (void)!::write(STDERR_FILENO, kLine.data(), kLine.size());
  overrun_guard->overrun(cause);
  ::poll(nullptr, 0, static_cast<int>(kReportTime.count()));
  ::_exit(kExitIntake);
}

// Ends the process when the guard says so. Needs no more than the outbox.
void watch_intake(IntakeGuard& guard, Outbox& outbox) {
  overrun_guard = &guard;
  on_stack_overflow([] { hand_over(IntakeGuard::Cause::stack); });
  chat::on_overrun([] { hand_over(IntakeGuard::Cause::memory); });
  std::thread([&] {
    while (true) {
      const auto failed = guard.look(kLookEvery);
      if (!failed) continue;
      log_error("chat template or tokenizer ran away", {{"reason", failed->message}});
      const bool loading = !failed->id;
      outbox.push(*failed);
      outbox.flush();
      ::_exit(loading ? kExitLoad : kExitIntake);
    }
  }).detach();
}

// Of this machine's time zone now, for templates that print the date.
std::chrono::seconds utc_offset(const Clock& clock) {
  const std::time_t now = static_cast<std::time_t>(unix_seconds(clock.wall_now()));
  std::tm local{};
  ::localtime_r(&now, &local);
  return std::chrono::seconds(local.tm_gmtoff);
}

// Everything that exists once a model is loaded.
struct Loaded {
  std::unique_ptr<llama::Model> model;
  std::unique_ptr<llama::Context> context;
  StartedDraft draft;
  std::unique_ptr<chat::ChatTemplate> chat_template;  // null after a dry run
  bool flash_attention = false;
  std::string kv_type;
};

// On a guarded thread, because it renders some short conversations to see what the template can do.
Result<std::unique_ptr<chat::ChatTemplate>> make_template(chat::TemplateOptions options, const Clock& clock,
                                                          IntakeGuard& guard) {
  options.before_rendering = [&guard] { guard.begin(IntakeGuard::Work::rendering); };
  Result<std::unique_ptr<chat::ChatTemplate>> made;
  guard.enter(std::nullopt);
  {
    const GuardedThread thread([&] { made = chat::ChatTemplate::create(std::move(options), clock); });
  }
  guard.leave();
  return made;
}

Result<Loaded> load_model(const protocol::Load& load, Outbox& outbox, const Clock& clock,
                          IntakeGuard& guard) {
  Loaded loaded;
  const auto report = [&outbox](const char* phase) {
    return [&outbox, phase, reported = -1.0](float progress) mutable {
      if (progress - reported >= 0.01 || progress >= 1) {
        reported = progress;
        outbox.push(protocol::Phase{phase, progress});
      }
      return true;
    };
  };
  llama::ModelOptions model_options;
  model_options.path = load.model_path;
  model_options.excluded_buffer_types = load.excluded_buffer_types;
  model_options.dry_run = load.dry_run;
  model_options.progress = report("loading_model");
  GEZEL_TRY(loaded.model, llama::Model::load(model_options));
  if (!loaded.model->has_decoder()) {
    return fail(ErrorKind::invalid, "unsupported-feature",
                "this model cannot generate text: it has no decoder (it is an embedding model)", "model");
  }

  // Spec 35 section 2.6: what is known before anything was measured.
  const bool quantized = load.kv_type == "q8_0";
  if (!quantized && load.kv_type != "f16") {
    return fail(ErrorKind::invalid, "unsupported-feature",
                fmt::format("the KV cache cannot be of type '{}'; it may be f16 or q8_0", load.kv_type),
                "kv_type");
  }
  loaded.kv_type = load.kv_type;
  loaded.flash_attention = load.flash_attention.value_or(quantized || loaded.model->head_dimension() > 64);
  llama::ContextOptions context_options;
  context_options.slots = load.slots;
  context_options.context_per_slot = load.context_per_slot;
  context_options.threads = load.threads;
  context_options.flash_attention = loaded.flash_attention;
  context_options.micro_batch_tokens = protocol::kMicroBatchTokens;
  if (quantized) context_options.cache_type = llama::CacheType::q8_0;
  GEZEL_TRY(loaded.context, llama::Context::create(*loaded.model, context_options));
  GEZEL_TRY(loaded.draft, start_draft(load, *loaded.model, context_options, report("loading_draft_model")));
  if (load.dry_run) return loaded;

  const llama::Vocab& vocab = loaded.model->vocab();
  chat::TemplateOptions template_options;
  template_options.source =
      load.chat_template_override.empty() ? loaded.model->chat_template() : load.chat_template_override;
  if (vocab.bos() >= 0) template_options.bos_token = vocab.piece(vocab.bos(), true);
  if (vocab.eos() >= 0) template_options.eos_token = vocab.piece(vocab.eos(), true);
  for (const llama::Token token : vocab.end_of_generation()) {
    template_options.end_tokens.emplace_back(vocab.piece(token, true));
  }
  template_options.has_special_token = [&vocab](std::string_view text) {
    return vocab.find_special(text) >= 0;
  };
  template_options.utc_offset = utc_offset(clock);
  template_options.flatten_tool_transcript = load.style.behaviors.flatten_tool_transcript;
  template_options.merge_system_messages = load.style.behaviors.merge_system_messages;
  GEZEL_TRY(loaded.chat_template, make_template(std::move(template_options), clock, guard));
  return loaded;
}

// What this process needs beside what the library allocates for the model. Of a dry run, that is all it has.
protocol::Ready describe(const Loaded& loaded, const std::string& sandbox, Bytes host_bytes) {
  protocol::Ready ready;
  ready.slots = loaded.context->slots();
  ready.context_per_slot = loaded.context->context_per_slot();
  ready.flash_attention = loaded.flash_attention;
  ready.kv_type = loaded.kv_type;
  for (const llama::Context* context : {loaded.context.get(), loaded.draft.context.get()}) {
    if (context == nullptr) continue;
    const auto memory = context->memory();
    ready.weights_bytes += memory.weights;
    ready.repack_bytes += memory.repack;
    ready.kv_bytes += memory.kv;
    ready.compute_bytes += memory.compute;
  }
  ready.drafts = loaded.draft.model != nullptr;
  ready.draft_trouble = loaded.draft.trouble;
  ready.host_bytes = host_bytes;
  if (loaded.chat_template) {
    ready.chat_template = loaded.chat_template->default_name();
    ready.supports_reasoning = loaded.chat_template->supports_reasoning();
    ready.supports_tools = loaded.chat_template->supports_tools();
  }
  ready.backends = llama::backends();
  ready.sandbox = sandbox;
  return ready;
}

// What the scheduler asks for guesses.
struct Drafting {
  explicit Drafting(llama::Context& context) : decoder(context) {}
  ContextDecoder decoder;
  std::unique_ptr<scheduler::DraftModel> model;
};

// Null without a draft model.
std::unique_ptr<Drafting> make_drafting(const protocol::Load& load, const Loaded& loaded,
                                        const Clock& clock) {
  if (loaded.draft.model == nullptr) return nullptr;
  llama::Context& context = *loaded.draft.context;
  const llama::Vocab& vocab = loaded.model->vocab();
  auto out = std::make_unique<Drafting>(context);
  out->model = std::make_unique<scheduler::DraftModel>(
      scheduler::DraftModel::Options{
          .slots = context.slots(),
          .context_per_slot = context.context_per_slot(),
          .batch_tokens = context.batch_tokens(),
          .sliding_window = loaded.draft.model->sliding_window(),
          .vocabulary = std::min(vocab.size(), loaded.draft.model->vocab().size()),
          .most = static_cast<std::size_t>(load.draft.max_tokens),
          .is_end = [&vocab](scheduler::Token token) { return vocab.is_end_of_generation(token); }},
      out->decoder, clock);
  return out;
}

}  // namespace

int run_worker(int fd) {
  llama::initialize();
  const system::ProcessUsage usage;  // the sandbox will close /proc
  ::tzset();                         // templates may print local time; the zone cannot be read later
  Inbox inbox(fd);
  if (!send_all(fd, protocol::encode(FrameType::hello_reply,
                                     protocol::Hello{protocol::kProtocolVersion, llama::build_info()}))) {
    return kExitStart;
  }

  std::optional<protocol::Load> load;
  while (!load) {
    auto frame = inbox.next();
    if (!frame || !*frame) return 0;
    if ((*frame)->type == FrameType::hello) {
      const auto hello = protocol::parse_hello((*frame)->body);
      if (hello && hello->protocol == protocol::kProtocolVersion) continue;
      // The daemon sees our version in our own hello and explains the mismatch.
      return kExitStart;
    }
    if ((*frame)->type != FrameType::load) {
      log_error("the daemon sent a frame before the load frame");
      return kExitStart;
    }
    auto parsed = protocol::parse_load((*frame)->body);
    if (!parsed) {
      log_error("the load frame is damaged", {{"reason", parsed.error().message}});
      return kExitStart;
    }
    load = std::move(*parsed);
  }

  std::string sandbox = "off";
  if (load->sandbox) {
    if (auto files = restrict_files(load->files, load->cache_folder); !files) {
      send_all(fd, protocol::encode(load_failure(files.error())));
      return kExitStart;
    }
  }

  std::atomic<scheduler::Scheduler*> scheduler_for_heartbeat{nullptr};
  Commands commands;
  const std::function<std::uint64_t()> decode_steps = [&] {
    const scheduler::Scheduler* scheduler = scheduler_for_heartbeat.load();
    return scheduler == nullptr ? std::uint64_t{0} : scheduler->decode_steps();
  };
  Outbox outbox(fd, decode_steps, [] { ::_exit(kExitOutboxFull); });
  Reader reader(inbox, outbox, commands);
  std::thread([&reader] { reader.run(); }).detach();  // ends the process when the daemon goes away
  if (load->sandbox) {
    if (auto calls = restrict_syscalls(); !calls) {
      outbox.push(load_failure(calls.error()));
      outbox.flush();
      ::_exit(kExitStart);
    }
    sandbox = sandbox_status();
  }

  const SystemClock clock;
  MaskThread masks;
  IntakeGuard guard(clock);
  watch_intake(guard, outbox);
  auto loaded = load_model(*load, outbox, clock, guard);
  if (!loaded) {
    outbox.push(load_failure(loaded.error()));
    outbox.flush();
    ::_exit(kExitLoad);
  }
  return_free_memory();  // reading a large vocabulary leaves tens of MiB
  if (load->dry_run) {
    outbox.push(describe(*loaded, sandbox, usage.anonymous_bytes()));
    outbox.flush();
    ::_exit(0);
  }
  const llama::Vocab& vocab = loaded->model->vocab();

  ContextDecoder decoder(*loaded->context);
  scheduler::Options options;
  options.slots = loaded->context->slots();
  options.context_per_slot = loaded->context->context_per_slot();
  options.batch_tokens = loaded->context->batch_tokens();
  options.sliding_window = loaded->model->sliding_window();
  options.recurrent = loaded->model->recurrent();
  options.tiles_of_64 = loaded->flash_attention;
  options.target_itl_ms = load->target_itl_ms;
  for (const protocol::KnownStep& step : load->known_steps) {
    if (step.kind == "decode")
      options.costs.observe_decode(static_cast<int>(step.tokens), step.depth, step.ms);
    else
      options.costs.observe_prefill(step.tokens, step.depth, step.ms);
  }
  options.speculation = load->speculation;
  options.max_outputs = loaded->context->max_outputs();
  TokenMemory memory(vocab);
  FrameSink sink(outbox, vocab, memory, decode_steps);
  const OutputText output(vocab);
  options.reuse = !load->cache.off;
  options.verify = load->cache.verify;
  StartedCache cache = start_cache(*load, *loaded->model, *loaded->context, loaded->flash_attention, decoder,
                                   clock, [&commands] { commands.push(DiskDone{}); });
  const auto drafting = make_drafting(*load, *loaded, clock);
  scheduler::Scheduler scheduler(
      options, decoder,
      {[&output](scheduler::Token token) { return output(token); },
       [&vocab](scheduler::Token token) { return vocab.is_end_of_generation(token); }},
      clock, sink, cache.cache.get(), drafting ? drafting->model.get() : nullptr);
  loaded->context->set_abort_flag(scheduler.abort_flag());
  scheduler_for_heartbeat = &scheduler;

  auto view = std::make_shared<sampling::VocabView>();
  view->size = vocab.size();
  view->end_of_generation = vocab.end_of_generation();
  view->piece = [&vocab](scheduler::Token token) { return std::string(vocab.piece(token, true)); };
  const std::string source =
      load->chat_template_override.empty() ? loaded->model->chat_template() : load->chat_template_override;
  Constraints constraints(
      {.style = load->style,
       .template_shows_tools = loaded->chat_template->supports_tools(),
       .reasons = loaded->chat_template->supports_reasoning() || !load->style.reasoning_open.empty(),
       .template_source = source},
      vocab, output, masks);
  // Known once for all requests, so it is said once: a client that asks for a budget itself is told each
  // time.
  if (!constraints.closes_reasoning()) {
    if (load->tuning.thinking_budget)
      log_warn("the profile's thinking budget has no effect: the chat template shows no end of reasoning");
    load->tuning.thinking_budget.reset();
    for (auto& named : load->named_tunings) named.tuning.thinking_budget.reset();
  }
  Intake intake({options.context_per_slot, std::move(load->tuning), std::move(load->named_tunings),
                 std::move(load->tuning_profile), std::move(view)},
                vocab, *loaded->chat_template, memory, constraints, guard, outbox,
                [&commands](Prepared prepared) { commands.push(std::move(prepared)); });
  intake.on_cache_query([&commands](protocol::CacheQuery query, Prepared prompt) {
    commands.push(CacheCommand{std::move(query), std::move(prompt)});
  });
  CacheDesk desk(scheduler, cache.cache.get(), vocab, memory, sink, outbox, clock);
  reader.attach(&intake, &scheduler);
  outbox.push(describe(*loaded, sandbox, 0));

  calibration::BenchContext bench_context(*loaded->model, commands.interrupts_measuring);
  calibration::Bench bench(bench_context, clock, system::thread_cpu_ms, commands.interrupts_measuring);
  DecodeLoop(scheduler, *loaded->context, loaded->draft.context.get(), desk, sink, outbox, commands, usage,
             bench)
      .run();
  scheduler.freeze(clock.now() + Millis(load->cache.stop_ms));
  outbox.flush();
  // Threads still wait on the socket; the process ends as a whole. A failed backend is an unexpected end.
  ::_exit(scheduler.poisoned() ? kExitBackend : kExitDaemonGone);
}

std::string version_text() {
  return fmt::format("gezel-engine {} (libllama {})", GEZEL_VERSION, llama::build_info());
}

std::string version_json() {
  llama::initialize();
  json::array backends;
  for (const std::string& backend : llama::backends()) backends.emplace_back(backend);
  return to_json(json::object{{"version", GEZEL_VERSION},
                              {"protocol", protocol::kProtocolVersion},
                              {"libllama", llama::build_info()},
                              {"backends", std::move(backends)},
                              {"sandbox", sandbox_status()}});
}

}  // namespace gezel::worker
