// engine_llama/test_windows.h
//
// For tests of reloads: an engine whose model has a window, on a machine whose free memory the test moves.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "engine_llama/test_worker.h"

namespace gezel::engine_llama {

inline constexpr std::int64_t kNative = 32'768, kFloor = 16'384;

// A model of 1 GiB with 128 KiB per token on a machine of 32 GiB, one slot.
class Windows : public EngineTest {
 protected:
  Windows() {
    admission = std::make_shared<engine::Admission>(engine::Admission::Parts{
        .loop = io.get_executor(), .clock = clock, .timers = timers, .machine = [this] {
          engine::Admission::Machine machine;
          machine.pools.budget_bytes = machine.pools.ram_share_bytes = machine.pools.fast_bytes = 24 * kGiB;
          machine.total_ram = 32 * kGiB;
          machine.free_ram = free;
          return machine;
        }});
    capacity::LaunchInput input;
    input.model.id = "m";
    input.model.architecture = "llama";
    input.model.weights = kGiB;
    input.model.geometry = capacity::KvGeometry{.global_elements = 65'536, .attention_layers = 32};
    input.model.native = kNative;
    input.settings.kv_type = capacity::KvType::f16;
    input.settings.slots = 1;
    input.settings.floor = kFloor;
    capacity = input;
  }
  ~Windows() override {
    engine.reset();
    settle();
  }

  static constexpr Bytes kShort = 5 * kGiB, kPlenty = 24 * kGiB;

  // The worker of a start says hello and takes what it is told to. Returns the window; `grants` overrides it.
  std::int64_t load(std::int64_t grants = 0) {
    settle();
    worker().hello();
    settle();
    const auto frames = worker().take();
    if (frames.empty() || frames.back().type != protocol::FrameType::load) {
      ADD_FAILURE() << "no load";
      return 0;
    }
    const auto load = protocol::parse_load(frames.back().body);
    path = load->model_path;
    const auto window = grants > 0 ? grants : load->context_per_slot;
    worker().ready(1, window);
    settle();
    // Only the real thing is ready; ids of the requests it got at once:
    generates = take();
    return window;
  }
  // A model that was loaded while memory was short. Its window.
  std::int64_t load_short() {
    free = kShort;
    make();
    ready = ask_ready();
    worker().exit({1, 0});  // no dry run: estimates will do
    const auto window = load();
    EXPECT_LT(window, kFloor);
    EXPECT_TRUE(engine->status().below_floor);
    loads = launches();
    return window;
  }
  // The requests that the worker was sent since the last look.
  std::vector<protocol::Generate> take() {
    std::vector<protocol::Generate> out;
    stopped = false;
    for (const auto& frame : worker().take()) {
      if (frame.type == protocol::FrameType::generate) out.push_back(*protocol::parse_generate(frame.body));
      stopped |= frame.type == protocol::FrameType::drain;
    }
    return out;
  }
  Client wish(std::int64_t context) {
    prompt::GenerateRequest request;
    request.context = context;
    request.queue = terms;
    request.messages.push_back({prompt::Role::user, {{prompt::ContentPart::Kind::text, "hello"}}});
    return send(std::move(request));
  }
  // The worker finds the prompt too long.
  void overflow(std::uint64_t id, std::int64_t prompt, std::int64_t needed) {
    protocol::Failed failed;
    failed.id = id;
    failed.kind = "context_overflow";
    failed.code = "context-overflow";
    failed.message = "the prompt is too long";
    failed.prompt_tokens = prompt;
    failed.context_tokens = engine->status().context;
    failed.needed_tokens = needed;
    worker().say(protocol::encode(failed));
    settle();
  }
  // A load of another model that waits until this one is gone.
  struct Other {
    std::unique_ptr<engine::Seat> seat;
    bool wanted = true;
  };
  std::shared_ptr<Other> enter_other() {
    auto other = std::make_shared<Other>();
    engine::Holder holder{.key = "llama-cpp:other:0",
                          .name = "other",
                          .busy = [] { return false; },
                          .lane = [] { return std::optional(prompt::Lane::interactive); },
                          .hits_last_minute = [] { return 0; },
                          .idle_ms = [] { return std::int64_t{0}; },
                          .give_way = [](bool) {},
                          .unload = [] {}};
    asio::co_spawn(
        io,
        [other, holder, admission = admission]() -> asio::awaitable<void> {
          auto admitted = co_await admission->enter({.holder = holder,
                                                     .plan =
                                                         [](const capacity::MachineState& state) {
                                                           capacity::MemoryPlan plan;
                                                           plan.slots = 1;
                                                           plan.bytes.weights = kGiB;
                                                           plan.decision = capacity::Decision::fits;
                                                           for (const auto& resident : state.residents)
                                                             plan.evicts.push_back(resident.key);
                                                           return plan;
                                                         },
                                                     .wanted = [other] { return other->wanted; },
                                                     .notice = [](const engine::Waiting&) {}});
          if (admitted) other->seat = std::move(admitted->seat);
        },
        asio::detached);
    settle();
    return other;
  }
  // The worker was told to stop, and does.
  void stop_worker() {
    take();
    EXPECT_TRUE(stopped || was_stopped());
    worker().exit({0, 0});
    settle();
  }
  bool was_stopped() const { return engine->status().state == engine::State::stopping; }
  bool reloads() { return was_stopped() || launches() > loads; }
  const engine::EngineError& error_of(Client& client) {
    read(client);
    const auto* failed = client.last<engine::Failed>();
    static const engine::EngineError kNone;
    EXPECT_TRUE(failed) << "it was not refused";
    return failed ? failed->error : kNone;
  }

  Bytes free = kPlenty;
  Ready ready;
  std::vector<protocol::Generate> generates;
  std::string path;
  std::size_t loads = 0;
  bool stopped = false;
};

}  // namespace gezel::engine_llama
