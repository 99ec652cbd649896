#include "engine_llama/worker_log.h"

#include <fmt/format.h>

#include <boost/asio/post.hpp>

namespace gezel::engine_llama {

WorkerLog::WorkerLog(const boost::asio::any_io_executor& pool, const fs::path& home, const Clock& clock,
                     std::string_view model_id)
    : strand_(pool),
      shared_(std::make_shared<Shared>(engine::RollingLog(home / "logs", "gezel-engine"))),
      clock_(clock),
      prefix_(fmt::format("[gezel-engine {}]", model_id)) {}

void WorkerLog::line(std::string_view text) {
  const auto now = clock_.wall_now();
  std::string out = fmt::format("{} {} {}\n", iso_time(now), prefix_, text);
  if (shared_->pending + out.size() > kMaxPending) {
    ++shared_->dropped;
    return;
  }
  if (const auto dropped = shared_->dropped.exchange(0); dropped > 0)
    out = fmt::format("{} {} ({} lines dropped)\n{}", iso_time(now), prefix_, dropped, out);
  shared_->pending += out.size();
  boost::asio::post(strand_, [shared = shared_, out = std::move(out), now] {
    shared->file.write(out, now);
    shared->pending -= out.size();
  });
}

}  // namespace gezel::engine_llama
