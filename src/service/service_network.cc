// Installs of models of the network. Whatever can be known of a model before its download is asked for first:
// which files it has, whether the first one is a model at all, how large they are.
#include <fmt/format.h>

#include "engine/on_pool.h"
#include "models/mirrors.h"
#include "models/owner.h"
#include "models/url_source.h"
#include "service/core_installs.h"
#include "service/network_plan.h"
#include "service/service_core.h"
#include "service/time_limit.h"

namespace gezel::service {

using catalog::Backend;
using engine::on_pool;

namespace {

// Hosts that send a file without saying how long it is are rare, but no reason not to take it.
bool is_only_size(const Error& error) {
  return error.code == "unknown_size";
}

Result<models::InstallPlan> plan_with_mirrors(const EnsureRequest& request, const InstallParts& parts,
                                              const downloads::Cancellation& cancelled) {
  GEZEL_TRY(auto plan, plan_network(request.model, request.id, request.sha256, parts, cancelled));
  GEZEL_CHECK(models::add_mirrors(plan, request.mirrors));
  return plan;
}

}  // namespace

asio::awaitable<api::ApiResult<EnsuredModel>> CoreInstalls::ensure_from_network(EnsureRequest request) {
  const auto core = core_.shared_from_this();
  const ServiceCore::Busy busy(core);
  auto plan = co_await on_pool(parts_->questions, [parts = parts_, stopped = stopped_, request] {
    return plan_with_mirrors(request, *parts, *stopped);
  });
  if (core->stopping_) co_return std::unexpected(api::shutting_down());
  if (!plan) co_return std::unexpected(install_error(plan.error()));
  co_await core->refresh();
  if (core->stopping_) co_return std::unexpected(api::shutting_down());
  const auto installed = [&](std::string_view id) { return core->installed(id); };
  if (request.id.empty()) plan->id = models::free_id(*plan, installed);
  if (auto joined = join(plan->backend, plan->id, models::source_key(*plan))) co_return std::move(*joined);
  if (plan->source == models::kFromUrl) {
    if (auto looked = co_await look_at(*plan); !looked) co_return std::unexpected(std::move(looked).error());
    // Somebody else may have begun it meanwhile.
    if (auto joined = join(plan->backend, plan->id, models::source_key(*plan))) co_return std::move(*joined);
  }
  if (const auto* there = installed(plan->id)) {
    if (models::has_files_of(*there, *plan))
      co_return EnsuredModel{catalog::qualified_id(plan->backend, plan->id), ""};
    if (const auto owned = models::check_owner(*there, *plan); !owned)
      co_return std::unexpected(install_error(owned.error()));
  }
  co_return start_job(std::move(*plan), false);
}

asio::awaitable<api::ApiResult<bool>> CoreInstalls::look_at(models::InstallPlan& plan) {
  const auto core = core_.shared_from_this();
  const auto cancelled = std::make_shared<downloads::Cancellation>();
  looking_at_.insert(cancelled);
  const TimeLimit limit(core->parts_.loop, parts_->header_time, cancelled);
  auto looked = co_await on_pool(
      parts_->headers, [parts = parts_, cancelled, plan]() mutable -> Result<models::InstallPlan> {
        GEZEL_CHECK(models::look_at_url(plan, *parts->transfers, parts->token, *cancelled));
        return std::move(plan);
      });
  looking_at_.erase(cancelled);
  if (core->stopping_) co_return std::unexpected(api::shutting_down());
  if (looked) {
    plan = std::move(*looked);
  } else if (!is_only_size(looked.error())) {
    co_return std::unexpected(
        plan_error(limit.explain(std::move(looked).error(), host_of(plan.files.front().urls.front()))));
  }
  co_return true;
}

}  // namespace gezel::service
