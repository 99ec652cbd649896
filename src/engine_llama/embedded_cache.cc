// Questions about the worker's prefix cache on their way to it and back.
#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

#include "base/log.h"
#include "engine_llama/embedded_core.h"

namespace gezel::engine_llama {

using engine::EngineResult;
using engine::make_error;

namespace {

struct Forget {  // also when the coroutine is destroyed
  CacheQuestions& questions;
  std::uint64_t id;
  ~Forget() { questions.forget(id); }
};

}  // namespace

asio::awaitable<EngineResult<engine::CacheReply>> Core::cache(engine::CacheQuery query) {
  const auto self = shared_from_this();
  if (state_ != engine::State::ready || !launch_) {
    auto error =
        make_error("model_not_found", fmt::format("The model '{}' is not loaded.", model_id_), "model");
    error.error.code = "model_not_loaded";
    co_return std::unexpected(std::move(error));
  }
  const bool computes = query.op == engine::CacheQuery::Op::warm;
  const auto id = cache_questions_.begin(computes);
  if (!id)
    co_return std::unexpected(make_error(
        "engine-busy",
        computes ? fmt::format(
                       "{} prompts are computed ahead for this model already, which is the limit. Try again "
                       "when one is done.",
                       kMostWarms)
                 : fmt::format("{} questions about this model's cache wait already, which is the limit.",
                               kMostCacheQuestions)));
  std::optional<Forget> forget(std::in_place, cache_questions_, *id);
  if (query.request && !options_.prompt_cache.per_tenant) query.request->tenant.clear();
  if (query.op == engine::CacheQuery::Op::drop) turns_.forget(query.session);
  auto frame = protocol::encode(to_protocol(*id, std::move(query)));
  if (auto fits = protocol::check_frame_size(frame); !fits)
    co_return std::unexpected(make_error("invalid-request", fits.error().message));
  launch_->send(std::move(frame));
  // Only what is about to be used keeps a model loaded; looking at it does not.
  if (computes) mark_used();
  auto reply = co_await cache_questions_.wait(*id, *parts_.timers,
                                              parts_.clock.now() + (computes ? kWarmTime : kCacheTime));
  forget.reset();
  if (computes) note_computed();
  co_return reply;
}

// The worker may have nothing to do any more; whoever waited for that goes on.
void Core::note_computed() {
  if (state_ != engine::State::ready) return;
  mark_used();
  if (parts_.admission) parts_.admission->changed();
  settle_reload();
}

// --- memory that another model needs

engine::Holder::Cache Core::cache_memory() const {
  if (state_ != engine::State::ready || load_.cache.off) return {};
  return {.reserved = load_.cache.host_bytes, .held = stats_ ? stats_->cache.host_bytes : 0};
}

void Core::trim_cache() {
  asio::co_spawn(parts_.loop, ask_to_trim(), asio::detached);
}

// Whatever comes of it is told to the ledger: somebody waits for it.
asio::awaitable<void> Core::ask_to_trim() {
  const auto self = shared_from_this();
  const auto generation = generation_;
  const Bytes before = load_.cache.host_bytes;
  Bytes keeps = before;
  if (const auto id = cache_questions_.begin(false); id && launch_) {
    const Forget forget{cache_questions_, *id};
    protocol::CacheQuery order;
    order.id = *id;
    order.op = "trim";
    launch_->send(protocol::encode(order));
    const auto reply = co_await cache_questions_.wait(*id, *parts_.timers, parts_.clock.now() + kTrimTime);
    if (reply && reply->count >= 0) keeps = std::min(before, static_cast<Bytes>(reply->count));
  }
  if (generation != generation_ || !seat_) co_return;
  load_.cache.host_bytes = keeps;
  log_info("a model's cache of computed prompts gave memory back",
           {{"model", model_id_}, {"had", format_bytes(before)}, {"keeps", format_bytes(keeps)}});
  seat_->trimmed(keeps);
  if (keeps < before) ask_for_stats();
}

void Core::note_answer(const std::string& session, const engine::Usage& usage) {
  const auto tokens = static_cast<Bytes>(granted_.slots) * static_cast<Bytes>(granted_.context_per_slot);
  turns_.record(session, usage, tokens > 0 ? granted_.kv_bytes / tokens : 0, parts_.clock.wall_now());
}

std::optional<engine::CacheUse> Core::cache_use() const {
  if (state_ != engine::State::ready) return std::nullopt;
  engine::CacheUse out{.turns = turns_.figures(), .bytes = 0, .budget = 0};
  if (stats_) {
    out.bytes = stats_->cache.host_bytes + stats_->cache.disk_bytes;
    out.budget = stats_->cache.host_budget;
  }
  return out;
}

}  // namespace gezel::engine_llama
