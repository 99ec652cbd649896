// Plans of models that are not installed. Everything that asks the network runs on a thread of its own, one
// question after the other: who asks for the same model at the same time finds its header in the cache.
#include <fmt/format.h>

#include <memory>

#include "base/log.h"
#include "downloads/url.h"
#include "engine/on_pool.h"
#include "models/ensure.h"
#include "models/ids.h"
#include "models/owner.h"
#include "models/url_source.h"
#include "service/core_installs.h"
#include "service/network_plan.h"
#include "service/running.h"
#include "service/service_core.h"
#include "service/time_limit.h"

namespace gezel::service {

using catalog::Backend;
using engine::on_pool;

namespace {

constexpr int kMostWaiting = 16;
constexpr int kWaitingRetrySeconds = 10;

// What a name comes to.
struct Named {
  models::InstallPlan plan;
  std::optional<catalog::Resolved> item;  // of the catalog
};

// As ensure takes it: an id without an engine is of ours.
std::string ensured_name(std::string_view text) {
  const std::string slashed = std::string(kLlamaProvider) + "/";
  if (text.starts_with(slashed))
    return catalog::qualified_id(Backend::llama_cpp, text.substr(slashed.size()));
  if (catalog::parse_qualified_id(text)) return std::string(text);
  return catalog::qualified_id(Backend::llama_cpp, text);
}

Result<Named> name_model(const std::string& model, const InstallParts& parts,
                         const downloads::Cancellation& cancelled) {
  if (is_network_name(model)) {
    GEZEL_TRY(auto plan, plan_network(model, {}, {}, parts, cancelled));
    return Named{std::move(plan), std::nullopt};
  }
  GEZEL_TRY(auto ensured, models::check_ensure(ensured_name(model), *parts.catalog, parts.host,
                                               [](Backend, std::string_view) { return false; }));
  if (ensured.id.backend != Backend::llama_cpp)
    return fail(ErrorKind::invalid, "unsupported_backend", "", "model");
  GEZEL_TRY(auto plan, models::plan_install(*ensured.resolved, ensured.id.backend, {.hub = parts.hub}));
  return Named{std::move(plan), std::move(ensured.resolved)};
}

// The catalog has figures of its own for a host that cannot be asked.
bool is_about_asking(const Error& error) {
  return error.kind == ErrorKind::unavailable || error.kind == ErrorKind::timeout ||
         error.kind == ErrorKind::denied;
}

api::ApiError too_many_plans() {
  return api::too_many("too_many_plans",
                       fmt::format("{} plans of models that are not installed wait for the network already, "
                                   "the most there may be; ask "
                                   "again later",
                                   kMostWaiting),
                       kWaitingRetrySeconds);
}

}  // namespace

api::ApiError plan_error(const Error& error) {
  api::ApiError out = install_error(error);
  // What is damaged is the host's file, not the request.
  if (error.kind == ErrorKind::corrupt) {
    out.status = 502;
    out.type = "server_error";
  }
  return out;
}

std::optional<api::ApiError> CoreInstalls::given_up(const downloads::Cancellation& cancelled) const {
  if (core_.stopping_) return api::shutting_down();
  if (!cancelled.cancelled()) return std::nullopt;
  return api::from_error({ErrorKind::cancelled, "cancelled", "the request was given up", {}});
}

asio::awaitable<api::ApiResult<RemoteModel>> CoreInstalls::remote_model(
    PlanRequest request, std::optional<api::ApiError> otherwise) {
  const auto core = core_.shared_from_this();
  if (is_network_name(request.model) && !request.allow_network_names)
    co_return std::unexpected(api::missing_scope("ui"));
  if (plans_waiting_ >= kMostWaiting) co_return std::unexpected(too_many_plans());
  const Counted waiting(plans_waiting_);
  const ServiceCore::Busy busy(core);
  const auto cancelled = request.cancelled ? request.cancelled : std::make_shared<downloads::Cancellation>();
  while (planning_) {
    if (!co_await planned_.wait()) co_return std::unexpected(api::shutting_down());
    if (auto end = given_up(*cancelled)) co_return std::unexpected(std::move(*end));
  }
  if (auto end = given_up(*cancelled)) co_return std::unexpected(std::move(*end));
  const Running planning(planning_, planned_);
  asked_ = cancelled;
  const TimeLimit limit(core->parts_.loop, parts_->header_time, cancelled);

  auto named = co_await on_pool(parts_->headers, [parts = parts_, cancelled, model = request.model] {
    return name_model(model, *parts, *cancelled);
  });
  if (core->stopping_) co_return std::unexpected(api::shutting_down());
  if (!named) {
    const auto& code = named.error().code;
    if (otherwise && (code == "unknown_model" || code == "ambiguous_model"))
      co_return std::unexpected(std::move(*otherwise));
    if (code == "unsupported_backend" && named.error().message.empty())
      co_return std::unexpected(unsupported_backend(request.model));
    co_return std::unexpected(plan_error(limit.explain(std::move(named).error(), host_of(parts_->hub.base))));
  }
  RemoteModel out;
  if (is_network_name(request.model)) {
    co_await core->refresh();
    if (core->stopping_) co_return std::unexpected(api::shutting_down());
    const std::string id =
        models::free_id(named->plan, [&](std::string_view each) { return core->installed(each); });
    if (const auto* there = core->installed(id);
        there != nullptr && models::has_files_of(*there, named->plan)) {
      out.installed = ModelName{std::string(kLlamaProvider), id};
      co_return out;
    }
  }
  out.name = named->item ? catalog::qualified_id(Backend::llama_cpp, named->plan.id) : request.model;
  out.download_bytes = named->plan.total_bytes();
  auto read = co_await read_header(named->plan, cancelled, out);
  if (core->stopping_) co_return std::unexpected(api::shutting_down());
  if (read) co_return out;
  const auto& address = models::weight_files(named->plan).front()->urls.front();
  const Error error = limit.explain(std::move(read).error(), host_of(address));
  if (!named->item || !is_about_asking(error)) co_return std::unexpected(plan_error(error));
  log_info("a model is planned by the catalog's figures", {{"model", out.name}, {"reason", error.message}});
  out.facts = facts_of_catalog(named->plan, *named->item);
  out.source = FactsSource::catalog;
  out.note = error.message;
  co_return out;
}

asio::awaitable<Result<>> CoreInstalls::read_header(models::InstallPlan& plan,
                                                    std::shared_ptr<downloads::Cancellation> cancelled,
                                                    RemoteModel& out) {
  const models::PlannedFile file = *models::weight_files(plan).front();
  const auto* entry = headers_.find(file);
  if (entry == nullptr || !entry->pinned()) {
    auto header = co_await on_pool(parts_->headers, [parts = parts_, cancelled, plan,
                                                     etag = entry != nullptr ? entry->etag : std::string()] {
      return models::read_remote_header(plan, etag, *parts->transfers, parts->token, *cancelled);
    });
    if (!header) co_return std::unexpected(std::move(header).error());
    out.read_bytes = header->read_bytes;
    // Nobody else used the cache meanwhile: only one plan asks the network at a time.
    if (!header->unchanged) entry = &headers_.put(file, std::move(*header));
  }
  if (plan.source == models::kFromUrl) {
    // An address says no sizes; those of further parts are asked for.
    const Bytes first = entry->file_bytes;
    auto sized = co_await on_pool(
        parts_->headers, [parts = parts_, cancelled, plan, first]() mutable -> Result<models::InstallPlan> {
          plan.files.front().size_bytes = first;
          GEZEL_CHECK(models::measure_parts(plan, *parts->transfers, parts->token, *cancelled));
          return std::move(plan);
        });
    if (!sized) co_return std::unexpected(std::move(sized).error());
    plan = std::move(*sized);
    out.download_bytes = plan.total_bytes();
  }
  out.facts = facts_of_header(plan, *entry->metadata, entry->file_bytes);
  if (out.download_bytes == 0) out.download_bytes = entry->file_bytes;
  co_return Result<>();
}

}  // namespace gezel::service
