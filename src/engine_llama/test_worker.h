// engine_llama/test_worker.h
//
// For tests: a worker that speaks the real protocol over a real socket pair from inside the test, and an
// engine that runs on a clock moved by hand. One thread, no process, no waiting: settle() runs everything
// that can run now.
#pragma once
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <csignal>

#include "base/log.h"
#include "base/test_folder.h"
#include "engine_llama/embedded_core.h"

namespace gezel::engine_llama {

// The worker's side of one launch.
struct FakeWorker {
  explicit FakeWorker(asio::io_context& loop) : io(loop) {
    auto sockets = socket_pair();
    socket = std::move(sockets->second);
    daemon_socket = std::move(sockets->first);
    int pipe_fds[2];
    EXPECT_EQ(pipe2(pipe_fds, O_CLOEXEC | O_NONBLOCK), 0);
    daemon_output = Fd(pipe_fds[0]);
    output = Fd(pipe_fds[1]);
  }

  // Frames the daemon sent since the last call.
  std::vector<protocol::Frame> take() {
    char buffer[64 * kKiB];
    ssize_t got = 0;
    while ((got = recv(socket.get(), buffer, sizeof buffer, MSG_DONTWAIT)) > 0)
      reader.feed(std::string_view(buffer, static_cast<std::size_t>(got)));
    std::vector<protocol::Frame> out;
    while (true) {
      auto frame = reader.next();
      EXPECT_TRUE(frame);
      if (!frame || !*frame) return out;
      out.push_back(std::move(**frame));
    }
  }
  // Ids of the requests the daemon sent since the last call.
  std::vector<std::uint64_t> take_requests() {
    std::vector<std::uint64_t> ids;
    for (const auto& frame : take())
      if (frame.type == protocol::FrameType::generate)
        ids.push_back(protocol::parse_generate(frame.body)->id);
    return ids;
  }
  void say(const std::string& bytes) {
    ASSERT_EQ(send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT),
              static_cast<ssize_t>(bytes.size()));
  }
  void print(std::string_view text) {
    ASSERT_EQ(write(output.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  void hello(int protocol = protocol::kProtocolVersion) {
    say(protocol::encode(protocol::FrameType::hello_reply, protocol::Hello{protocol, "b1"}));
  }
  void ready(int slots, std::int64_t context = 2048) {
    protocol::Ready ready;
    ready.drafts = drafts;
    ready.draft_trouble = draft_trouble;
    ready.slots = slots;
    ready.context_per_slot = context;
    ready.kv_type = "f16";
    ready.weights_bytes = 100;
    ready.kv_bytes = 20;
    ready.compute_bytes = 3;
    ready.sandbox = "full";
    say(protocol::encode(ready));
  }
  bool drafts = false;
  std::string draft_trouble;
  void heartbeat(std::uint64_t steps = 0) {
    protocol::Progress beat;
    beat.stage = "prefill";
    beat.decode_steps = steps;
    say(protocol::encode(beat));
  }
  void started(std::uint64_t id) { say(protocol::encode(protocol::Started{id, 12, 4, false, {}})); }
  void prefill(std::uint64_t id, std::int64_t done, std::int64_t total, std::uint64_t steps = 1) {
    say(protocol::encode(protocol::Progress{id, "prefill", 0, done, total, steps}));
  }
  void text(std::uint64_t id, std::string text) {
    protocol::Step step;
    step.runs.push_back({id, std::move(text), 1, {}});
    say(protocol::encode(step));
  }
  void done(std::uint64_t id) {
    protocol::Done done;
    done.id = id;
    done.reason = "stop";
    done.prompt_tokens = 12;
    done.completion_tokens = 3;
    say(protocol::encode(done));
  }
  void failed(std::optional<std::uint64_t> id, std::string code, std::string message) {
    protocol::Failed failed;
    failed.id = id;
    failed.code = std::move(code);
    failed.message = std::move(message);
    say(protocol::encode(failed));
  }
  void hang_up() {
    socket.reset();
    output.reset();
  }
  // Ends as a process does: descriptors close, then the parent learns of it.
  void exit(ExitStatus status) {
    hang_up();
    tell(status);
  }
  void tell(ExitStatus status) {
    if (std::exchange(ended, true)) return;
    asio::post(io, [call = std::exchange(on_exit, nullptr), status] {
      if (call) call(status);
    });
  }

  asio::io_context& io;
  Fd socket, output, daemon_socket, daemon_output;
  protocol::FrameReader reader;
  std::function<void(ExitStatus)> on_exit;
  std::vector<engine::EndSignal> signals;
  bool ended = false;
  bool dies_on_kill = true;
  int nice = 0;
  bool keeps_nice = false;  // the kernel refuses to lower it
  bool dropped = false;     // the daemon let go of the process
};

class FakeProcess final : public WorkerProcess {
 public:
  explicit FakeProcess(std::shared_ptr<FakeWorker> worker) : worker_(std::move(worker)) {}
  ~FakeProcess() override { worker_->dropped = true; }
  std::int64_t pid() const override { return ::getpid(); }  // a process that is there; signals never reach it
  Fd take_socket() override { return std::move(worker_->daemon_socket); }
  Fd take_output() override { return std::move(worker_->daemon_output); }
  void signal(engine::EndSignal signal) override {
    worker_->signals.push_back(signal);
    if (signal == engine::EndSignal::kill && worker_->dies_on_kill) worker_->exit({0, SIGKILL});
  }
  bool set_nice(int nice) override {
    if (nice < worker_->nice && worker_->keeps_nice) return false;
    worker_->nice = nice;
    return true;
  }
  void on_exit(std::function<void(ExitStatus)> callback) override { worker_->on_exit = std::move(callback); }

 private:
  std::shared_ptr<FakeWorker> worker_;
};

class FakeLauncher final : public Launcher {
 public:
  explicit FakeLauncher(asio::io_context& io) : io_(io) {}
  Result<std::unique_ptr<WorkerProcess>> launch(const fs::path&) override {
    if (refuse)
      return fail(ErrorKind::io, "engine-launch", "cannot start /secret/path/gezel-engine (ENOENT)");
    workers.push_back(std::make_shared<FakeWorker>(io_));
    return std::make_unique<FakeProcess>(workers.back());
  }
  std::vector<std::shared_ptr<FakeWorker>> workers;
  bool refuse = false;

 private:
  asio::io_context& io_;
};

class FakeModels final : public ModelSource {
 public:
  Result<ModelFacts> find() override {
    ++finds;
    if (missing) return fail(ErrorKind::not_found, "model_not_found", "no such model");
    if (find_errno != 0) return std::unexpected(errno_error("open m.gguf", find_errno));
    return facts;
  }
  Result<> verify(const models::InstalledModel&, const std::function<bool()>&) override {
    ++verifies;
    return verdict;
  }
  ModelFacts facts;
  Result<> verdict;
  bool missing = false;
  int find_errno = 0;
  int finds = 0, verifies = 0;
};

// A client of one generation.
struct Client {
  std::unique_ptr<engine::Generation> generation;
  std::vector<engine::Event> events;
  std::string text() const {
    std::string out;
    for (const auto& e : events)
      if (const auto* delta = std::get_if<engine::TextDelta>(&e)) out += delta->text;
    return out;
  }
  template <class T>
  const T* last() const {
    return events.empty() ? nullptr : std::get_if<T>(&events.back());
  }
  std::string failure() const {
    const auto* failed = last<engine::Failed>();
    return failed ? failed->error.error.code : "";
  }
};

class EngineTest : public testing::Test {
 protected:
  EngineTest() {
    setup_logging({.level = LogLevel::error, .file = "/dev/null"});
    options.home = home.path();
    options.engine_program = "/nowhere/gezel-engine";
    models->facts.model.weights = "/models/m.gguf";
    models->facts.model.files = {"/models/m.gguf"};
    models->facts.stamp = {1000, 5'000'000, 1};
  }
  ~EngineTest() override {
    engine.reset();
    settle();
  }

  void make() {
    EmbeddedParts parts{.loop = io.get_executor(),
                        .pool = io.get_executor(),
                        .slow_pool = hashing_hangs ? slow.get_executor() : io.get_executor(),
                        .clock = clock,
                        .timers = timers,
                        .launcher = launcher,
                        .models = models,
                        .planner = [this](const models::InstalledModel&) -> engine::EngineResult<LaunchPlan> {
                          if (denied) return std::unexpected(*denied);
                          return LaunchPlan{.slots = slots,
                                            .context = 2048,
                                            .threads = 2,
                                            .capacity = capacity,
                                            .vocabulary = 1'000,
                                            .profile = profile,
                                            .calibration = calibration,
                                            .draft = draft};
                        },
                        .admission = admission};
    parts.gpu = gpu;
    engine = make_embedded_engine(std::move(parts), "llama-cpp:m", options);
  }
  void settle() {
    do io.restart();
    while (io.poll() > 0);
  }
  void advance(Millis by) {
    timers->advance(by, [this] { settle(); });
  }
  // Time passes while the worker lives.
  void advance_alive(Millis by, std::uint64_t steps = 0) {
    for (Millis left = by; left > Millis(0); left -= std::min(left, Millis(1'000))) {
      advance(std::min(left, Millis(1'000)));
      worker().heartbeat(steps);
      settle();
    }
  }
  FakeWorker& worker() { return *launcher->workers.back(); }
  std::size_t launches() const { return launcher->workers.size(); }

  // An engine with a worker that is ready.
  void make_ready(int granted = 1) {
    make();
    auto result = ask_ready();
    become_ready(granted);
    ASSERT_TRUE(*result && **result);
  }
  void become_ready(int granted = 1) {
    settle();
    worker().hello();
    settle();
    worker().ready(granted);
    settle();
    ids = worker().take_requests();
  }

  using Ready = std::shared_ptr<std::optional<engine::EngineResult<>>>;
  Ready ask_ready() {
    auto out = std::make_shared<std::optional<engine::EngineResult<>>>();
    asio::co_spawn(
        io, engine->ensure_ready(),
        [out](const std::exception_ptr&, engine::EngineResult<> result) { *out = std::move(result); });
    settle();
    return out;
  }

  Client ask(prompt::Lane lane = prompt::Lane::interactive, std::optional<std::int32_t> biased = {},
             prompt::OutputFormat::Kind format = prompt::OutputFormat::Kind::text) {
    prompt::GenerateRequest request;
    request.lane = lane;
    request.queue = terms;
    request.session_key = session;
    request.output_format.kind = format;
    if (biased) request.sampling.logit_bias.emplace_back(*biased, 1.0F);
    request.messages.push_back({prompt::Role::user, {{prompt::ContentPart::Kind::text, "hello"}}});
    return send(std::move(request));
  }
  Client send(prompt::GenerateRequest request) {
    Client client;
    refused.reset();
    asio::co_spawn(io, engine->generate(std::move(request)), [&](const std::exception_ptr&, auto result) {
      if (result)
        client.generation = std::move(*result);
      else
        refused = result.error();
    });
    settle();
    return client;
  }
  // Takes every event that is there.
  void read(Client& client) {
    while (true) {
      auto event = std::make_shared<std::optional<engine::Event>>();
      auto stop = std::make_shared<asio::cancellation_signal>();
      asio::co_spawn(io, client.generation->next(),
                     asio::bind_cancellation_slot(stop->slot(),
                                                  [event, stop](const std::exception_ptr&, engine::Event e) {
                                                    *event = std::move(e);
                                                  }));
      settle();
      if (*event) {
        client.events.push_back(std::move(**event));
        if (std::holds_alternative<engine::Done>(client.events.back()) ||
            std::holds_alternative<engine::Failed>(client.events.back()))
          return;
        continue;
      }
      stop->emit(asio::cancellation_type::terminal);  // nothing there: take the question back
      settle();
      return;
    }
  }
  engine::StopOutcome stop() {
    std::optional<engine::StopOutcome> out;
    asio::co_spawn(io, engine->stop(), [&](const std::exception_ptr&, engine::StopOutcome o) { out = o; });
    settle();
    if (!worker().ended) {
      worker().take();
      worker().exit({0, 0});
    }
    settle();
    EXPECT_TRUE(out);
    return out.value_or(engine::StopOutcome{});
  }
  std::vector<json::object> incidents() const {
    std::vector<json::object> out;
    const auto text = read_file(options.home / "logs" / "native-incidents.jsonl").value_or("");
    for (std::size_t at = 0; at < text.size();) {
      const auto end = text.find('\n', at);
      out.push_back(parse_json(text.substr(at, end - at))->as_object());
      at = end + 1;
    }
    return out;
  }

  TestFolder home;
  asio::io_context io, slow;
  bool hashing_hangs = false;  // set before make()
  ManualClock clock;
  std::shared_ptr<engine::ManualTimers> timers = std::make_shared<engine::ManualTimers>(clock);
  std::shared_ptr<FakeLauncher> launcher = std::make_shared<FakeLauncher>(io);
  std::shared_ptr<FakeModels> models = std::make_shared<FakeModels>();
  EmbeddedOptions options;
  std::shared_ptr<engine::GpuGate> gpu;
  int slots = 1;
  profiles::Applied profile;
  DraftPlan draft;
  CalibrationFacts calibration;  // without a key: it is off
  // Both or neither: how memory is planned.
  std::shared_ptr<engine::Admission> admission;
  std::optional<capacity::LaunchInput> capacity;
  prompt::QueueTerms terms;  // of what is asked from then on
  std::string session;
  std::vector<std::uint64_t> ids;  // of the requests that the worker got as soon as it was ready
  std::optional<engine::EngineError> denied, refused;
  std::unique_ptr<engine::Engine> engine;
};

}  // namespace gezel::engine_llama
