#include "worker/decode_loop.h"

#include <algorithm>

namespace gezel::worker {

void DecodeLoop::run() {
  while (!stopping_ && !scheduler_.poisoned()) {
    auto commands = commands_.take(!scheduler_.runnable(), scheduler_.wake_at());
    if (commands.empty() && !scheduler_.runnable()) scheduler_.poke();  // the time has come
    for (Command& command : commands) {
      std::visit([this](auto& body) { apply(body); }, command);
    }
    if (!stopping_ && scheduler_.runnable()) scheduler_.step();
    cache_.tend();
  }
}

void DecodeLoop::apply(Prepared& prepared) {
  protocol::Started started;
  started.id = prepared.run.id;
  started.prompt_tokens = static_cast<std::int64_t>(prepared.run.prompt.size());
  const scheduler::Forecast forecast = scheduler_.forecast(prepared.run);
  started.cached_tokens = forecast.cached;
  if (forecast.prefix_break) {
    started.prefix_break = cache_.describe(*forecast.prefix_break, prepared.span_messages, false);
    sink_.remember_break(prepared.run.id, cache_.describe(*forecast.prefix_break, prepared.span_messages,
                                                          prepared.prefix_snippets));
  }
  started.reasoning_open = prepared.reasoning_open;
  started.warnings = std::move(prepared.warnings);
  started.splits_reasoning = prepared.splits_reasoning;
  started.call_spellings = std::move(prepared.call_spellings);
  started.tuning_profile = std::move(prepared.tuning_profile);
  outbox_.push(std::move(started));
  replayed_ += static_cast<std::uint64_t>(prepared.replayed);
  replay_missed_ += static_cast<std::uint64_t>(prepared.replay_missed);
  scheduler_.submit(std::move(prepared.run));
}

void DecodeLoop::apply(const StatsQuery&) {
  const scheduler::Statistics figures = scheduler_.statistics();
  protocol::Stats stats;
  stats.slots = figures.slots;
  stats.sequences = figures.sequences;
  stats.queued = figures.queued;
  stats.threads = context_.threads();
  stats.cells_used = figures.cells_used;
  stats.kv_bytes = context_.memory().kv;
  stats.fds = usage_.open_descriptors();
  stats.resident_bytes = usage_.resident_bytes();
  stats.decode_steps = figures.decode_steps;
  stats.micro_batches = context_.micro_batches();
  stats.prompt_tokens_total = figures.prompt_tokens;
  stats.cached_tokens_total = figures.cached_tokens;
  stats.generated_tokens_total = figures.generated_tokens;
  stats.replayed_total = replayed_;
  stats.replay_missed_total = replay_missed_;
  const costmodel::CostModel& costs = scheduler_.costs();
  if (costs.knows_decode()) stats.decode_tps = 1000 / std::max(costs.decode_ms(1, 0), 1e-3);
  if (costs.knows_prefill()) stats.prefill_tps = 512'000 / std::max(costs.prefill_ms(512, 0), 1e-3);
  stats.cache = cache_.statistics();
  outbox_.push(stats);
}

}  // namespace gezel::worker
