// engine/test_admission.h
//
// The queue in front of the memory, for tests, with engines that exist only on paper: 10 GiB for models,
// everything else by hand.
#pragma once
#include "engine/admission.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <deque>

namespace gezel::engine {

inline constexpr Bytes kBudget = 10 * kGiB;

// An engine that would need `bytes` and nothing else.
struct Paper {
  std::string name;
  Bytes bytes = 0;
  bool busy = false, wanted = true, gives_way = false;
  bool says_it_fits = false;  // whatever the ledger says
  prompt::Lane lane = prompt::Lane::interactive;
  int unloads = 0, hits = 1;
  std::int64_t idle_ms = 60'000;
  std::vector<std::string> notices;
  std::optional<EngineResult<>> outcome;
  std::unique_ptr<Seat> seat;
  std::optional<MonotonicTime> since;
  int replica = 0;
  bool spare = false;
  Bytes cache = 0;  // of computed prompts
  int trims = 0;
};

class AdmissionTest : public testing::Test {
 protected:
  AdmissionTest() { make(false); }
  void make(bool one_load_at_a_time) {
    admission = std::make_shared<Admission>(Admission::Parts{.loop = io.get_executor(),
                                                             .clock = clock,
                                                             .timers = timers,
                                                             .machine =
                                                                 [this] {
                                                                   ++looks;
                                                                   Admission::Machine machine;
                                                                   machine.pools.budget_bytes =
                                                                       machine.pools.ram_share_bytes =
                                                                           machine.pools.fast_bytes = kBudget;
                                                                   machine.total_ram = 16 * kGiB;
                                                                   machine.free_ram = 16 * kGiB;
                                                                   return machine;
                                                                 },
                                                             .one_load_at_a_time = one_load_at_a_time});
  }

  void run() {
    io.restart();
    io.poll();
  }
  void pass(Millis time) {
    timers->advance(time, [this] { run(); });
    run();
  }

  // What fits in the budget beside the others, else after idle ones are stopped, else not.
  static capacity::MemoryPlan plan(const Paper& paper, const capacity::MachineState& state) {
    capacity::MemoryPlan out;
    out.slots = 1;
    out.context = 1024;
    out.bytes.weights = paper.bytes;
    out.bytes.cache = paper.cache;
    const Bytes missing = capacity::shortfall(state.broker, state.committed_other, paper.bytes);
    if (missing == 0 || paper.says_it_fits) {
      out.decision = capacity::Decision::fits;
      return out;
    }
    const auto victims = capacity::choose_victims(state.residents, missing, paper.name);
    if (victims.freed >= missing) {
      out.decision = capacity::Decision::evict;
      out.evicts = victims.stop;
    } else {
      out.denial = capacity::deny_over_budget(paper.name, paper.bytes, {});
    }
    return out;
  }

  void ask(Paper& paper) {
    Holder holder{.key = capacity::ledger_key("llama-cpp", paper.name, paper.replica),
                  .name = paper.name,
                  .busy = [&] { return paper.busy; },
                  .lane = [&]() -> std::optional<prompt::Lane> {
                    if (paper.seat && !paper.busy) return std::nullopt;
                    return paper.lane;
                  },
                  .hits_last_minute = [&] { return paper.hits; },
                  .idle_ms = [&] { return paper.idle_ms; },
                  .give_way = [&](bool on) { paper.gives_way = on; },
                  .unload = [&] { ++paper.unloads; },
                  .cache = [&] { return Holder::Cache{.reserved = paper.cache, .held = paper.cache}; },
                  .trim = [&] { ++paper.trims; }};
    asio::co_spawn(
        io,
        [this, &paper, holder]() mutable -> asio::awaitable<void> {
          auto admitted = co_await admission->enter(
              {.holder = std::move(holder),
               .plan = [&](const capacity::MachineState& state) { return plan(paper, state); },
               .wanted = [&] { return paper.wanted; },
               .notice = [&](const Waiting& waiting) { paper.notices.push_back(waiting.reason); },
               .since = paper.since,
               .spare = [&] { return paper.spare; }});
          if (admitted) {
            paper.seat = std::move(admitted->seat);
            paper.outcome = EngineResult<>();
          } else {
            paper.outcome = std::unexpected(admitted.error());
          }
        },
        asio::detached);
    run();
  }
  void load(Paper& paper) {
    ask(paper);
    ASSERT_TRUE(paper.seat) << paper.name;
    paper.seat->loaded(paper.bytes + paper.cache);
    run();
  }
  void trimmed(Paper& paper, Bytes cache) {
    paper.cache = cache;
    paper.seat->trimmed(cache);
    run();
  }

  asio::io_context io;
  ManualClock clock;
  std::shared_ptr<ManualTimers> timers = std::make_shared<ManualTimers>(clock);
  std::shared_ptr<Admission> admission;
  int looks = 0;  // at the machine
};

}  // namespace gezel::engine
