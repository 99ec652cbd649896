#include "engine/pool.h"

#include <fmt/format.h>

#include "engine/stop_together.h"

namespace gezel::engine {

EngineResult<std::shared_ptr<Engine>> EnginePool::get(const std::string& model_id) {
  if (closed_)
    return std::unexpected(
        make_error("engine-evicted", "The service is stopping; models are being unloaded."));
  auto& slot = engines_[model_id];
  if (!slot) {
    slot = factory_(model_id);
    slot->set_manners(manners_);
  }
  return slot;
}

void EnginePool::set_manners(Manners manners) {
  manners_ = manners;
  for (const auto& entry : engines_) entry.second->set_manners(manners);
}

std::shared_ptr<Engine> EnginePool::find(std::string_view model_id) const {
  const auto found = engines_.find(model_id);
  return found == engines_.end() ? nullptr : found->second;
}

std::vector<EnginePool::Listed> EnginePool::list() const {
  std::vector<Listed> out;
  for (const auto& [id, engine] : engines_) {
    auto status = engine->status();
    if (status.state != State::stopped || status.queued > 0) out.push_back({id, std::move(status)});
  }
  return out;
}

asio::awaitable<EngineResult<StopOutcome>> EnginePool::stop(std::string model_id, bool force) {
  const auto engine = find(model_id);
  const auto status = engine ? engine->status() : Status{};
  if (status.state == State::stopped && status.queued == 0) {
    EngineError error =
        make_error("model_not_found", fmt::format("The model '{}' is not loaded.", model_id), "model");
    error.error.code = "model_not_loaded";
    co_return std::unexpected(std::move(error));
  }
  if (engine->busy() && !force) {
    EngineError error =
        make_error("engine-busy",
                   fmt::format("The model '{}' is answering {} request(s). Wait for them, or stop it "
                               "with force, which ends them.",
                               model_id, status.slots_busy + status.queued),
                   "model");
    error.error.kind = ErrorKind::conflict;
    error.error.code = "model_busy";
    error.http_hint = 409;
    co_return std::unexpected(std::move(error));
  }
  co_return co_await engine->stop();
}

asio::awaitable<void> EnginePool::refresh(std::string model_id) {
  const auto engine = find(model_id);
  if (!engine) co_return;
  if (engine->busy()) {
    engine->refresh();
  } else if (engine->status().state != State::stopped) {
    co_await engine->stop();
  }
}

asio::awaitable<void> EnginePool::stop_all() {
  closed_ = true;
  std::vector<std::shared_ptr<Engine>> all;
  for (const auto& entry : engines_) all.push_back(entry.second);
  co_await stop_together(std::move(all));
}

}  // namespace gezel::engine
