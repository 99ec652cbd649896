// Questions about the worker's prefix cache on their way to it and back.
#include <fmt/format.h>

#include "engine_llama/embedded_core.h"

namespace gezel::engine_llama {

using engine::EngineResult;
using engine::make_error;

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
  struct Forget {  // also when the coroutine is destroyed
    CacheQuestions& questions;
    std::uint64_t id;
    ~Forget() { questions.forget(id); }
  };
  std::optional<Forget> forget(std::in_place, cache_questions_, *id);
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
