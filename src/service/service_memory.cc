// The truth about memory: what models hold, what one more would get, and why.
#include <fmt/format.h>

#include <algorithm>

#include "service/service_core.h"

namespace gezel::service {
namespace {

json::object plan_bytes(const capacity::PlanBytes& bytes) {
  return {{"weights", bytes.weights}, {"repack", bytes.repack}, {"kv", bytes.kv},
          {"compute", bytes.compute}, {"cache", bytes.cache},   {"total", bytes.total()}};
}

json::object plan_json(const std::string& model, const capacity::MemoryPlan& plan, FactsSource source) {
  json::array evicts;
  for (const auto& key : plan.evicts) evicts.emplace_back(key);
  json::array alternatives;
  for (const auto& tried : plan.alternatives) {
    alternatives.push_back(json::object{{"what", tried.what},
                                        {"slots", tried.slots},
                                        {"context", tried.context},
                                        {"bytes", tried.bytes},
                                        {"possible", tried.possible},
                                        {"why", tried.why}});
  }
  json::object out{{"model", model},
                   {"decision", capacity::decision_name(plan.decision)},
                   {"context", plan.context},
                   {"slots", plan.slots},
                   {"kv_type", capacity::kv_type_name(plan.kv_type)},
                   {"bytes", plan_bytes(plan.bytes)},
                   {"evicts", std::move(evicts)},
                   {"largest_context", plan.largest_context},
                   {"binding", capacity::binding_name(plan.binding)},
                   {"estimated", plan.estimated},
                   {"source", facts_source_name(source)},
                   {"below_floor", plan.below_floor},
                   {"alternatives", std::move(alternatives)},
                   {"summary", capacity::summary(plan, model)}};
  if (plan.denial) out["denial"] = plan.denial->error.message;
  return out;
}

json::value pressure_json(const engine::PressureWatch* watch) {
  if (watch == nullptr) return nullptr;
  const auto& state = watch->state();
  return json::object{{"step", capacity::pressure_step_name(state.step)},
                      {"source", capacity::pressure_source_name(state.source)}};
}

}  // namespace

json::value ServiceCore::memory(bool show_programs) {
  if (!parts_.admission) return json::object{{"pools", json::array()}, {"reservations", json::array()}};
  const auto& admission = *parts_.admission;
  if (parts_.gpu && !stopping_) parts_.gpu->safety().refresh();  // for the next who asks
  const auto machine = admission.machine();
  const auto rules = admission.broker().view();
  Bytes measured = 0;
  json::array reservations;
  for (const auto& held : admission.reservations()) {
    measured += held.measured;
    auto entry = plan_bytes(held.bytes);
    entry["key"] = held.key;
    entry["charged"] = held.charged;
    entry["measured"] = held.measured > 0 ? json::value(held.measured) : json::value();
    reservations.push_back(std::move(entry));
  }
  // total = budget + margin, unless somebody named a budget above the memory that there is; budget = reserved
  // + what more could be reserved; reserved = all that is charged.
  json::object pool{{"kind", capacity::pool_kind_name(machine.pools.kind)},
                    {"total", machine.total_ram},
                    {"budget", rules.budget},
                    {"reserved", rules.committed},
                    {"measured", measured},
                    {"margin", machine.total_ram > rules.budget ? machine.total_ram - rules.budget : 0},
                    {"free", machine.free_ram}};
  return json::object{
      {"pools", json::array{std::move(pool)}},
      {"reservations", std::move(reservations)},
      {"enforced", rules.enforced},
      {"pressure", pressure_json(parts_.pressure.get())},
      {"device_safety",
       parts_.gpu ? json::value(device_safety_json(parts_.gpu->safety(), own_processes(), show_programs))
                  : json::value()},
      {"gpu", gpus_ ? json::value(survey_json(*gpus_)) : json::value()},
      {"waiting", admission.waiting()}};
}

asio::awaitable<api::ApiResult<json::value>> ServiceCore::memory_plan(PlanRequest request) {
  std::optional<ModelName> name;
  std::optional<api::ApiError> missing;
  if (!is_network_name(request.model)) {
    auto usable = co_await usable_model(request.model);
    if (usable) {
      name = std::move(*usable);
    } else if (usable.error().code == "model_not_loaded") {
      // Of another program, and not used yet: a question does not register it.
      const auto found = co_await installs_.discovered_model(request.model);
      if (!found) co_return std::unexpected(found.error());
      co_return plan_of(*found, request.wish);
    } else if (usable.error().code == "model_not_found") {
      missing = std::move(usable).error();
    } else {
      co_return std::unexpected(std::move(usable).error());
    }
  }
  const engine::MemoryWish wish = request.wish;
  if (!name) {
    const auto remote = co_await installs_.remote_model(std::move(request), std::move(missing));
    if (!remote) co_return std::unexpected(remote.error());
    if (!remote->installed) co_return plan_of(*remote, wish);
    name = remote->installed;
  }
  const auto engine = engines_.get(name->qualified());
  if (!engine) co_return std::unexpected(api::from_engine(engine.error()));
  const auto plan = co_await (*engine)->plan(wish);
  if (!plan) co_return std::unexpected(api::from_engine(plan.error()));
  co_return plan_json(name->qualified(), *plan, FactsSource::installed);
}

// No worker can be asked about a file that is not here, so that every figure is an estimate.
api::ApiResult<json::value> ServiceCore::plan_of(const RemoteModel& remote,
                                                 const engine::MemoryWish& wish) const {
  if (!parts_.admission) {
    return std::unexpected(
        api::from_engine(engine::make_error("unsupported-feature", "This service plans no memory.")));
  }
  capacity::LaunchInput input;
  input.model = remote.facts;
  input.model.key = capacity::ledger_key(kLlamaProvider, "not installed:" + remote.facts.id, 0);
  input.model.name = remote.name;
  input.machine = parts_.admission->state_for(input.model.key);
  input.settings = parts_.launch;
  if (wish.slots) input.settings.slots = wish.slots;
  if (wish.context) input.settings.context.model_override = wish.context;
  auto plan = capacity::plan_launch(input);
  plan.estimated = true;
  auto out = plan_json(remote.name, plan, remote.source);
  out["download_bytes"] = remote.download_bytes;
  out["header_bytes_read"] = remote.read_bytes;
  if (!remote.note.empty()) out["note"] = remote.note;
  return out;
}

asio::awaitable<void> ServiceCore::plan_window(ModelName name) {
  const auto engine = engines_.get(name.qualified());
  if (!engine || !parts_.admission) co_return;
  const auto status = (*engine)->status();
  if (status.state == engine::State::ready && status.stale.empty()) {
    planned_[name.qualified()] = {status.context, status.slots, status.below_floor, {}, 0};
    co_return;
  }
  // Small changes of what is free are no reason to measure a model anew.
  const auto machine = parts_.admission->machine();
  const Bytes step = std::max<Bytes>(64 * kMiB, machine.total_ram / 32);
  const auto apart = [](Bytes a, Bytes b) { return a > b ? a - b : b - a; };
  std::string conditions = plan_conditions(name, step);
  if (const auto known = planned_.find(name.qualified()); known != planned_.end() &&
                                                          known->second.conditions == conditions &&
                                                          apart(known->second.free, machine.free_ram) < step)
    co_return;
  const auto plan = co_await (*engine)->plan({});
  if (!plan) co_return;
  const bool fits = plan->decision != capacity::Decision::no;
  planned_[name.qualified()] = {fits ? plan->context : 0, plan->slots, plan->below_floor,
                                std::move(conditions), machine.free_ram};
}

// The model's files and what is loaded, to the nearest `step`.
std::string ServiceCore::plan_conditions(const ModelName& name, Bytes step) const {
  std::string out = fmt::format("budget={}", parts_.admission->broker().view().budget);
  if (const auto* model = installed(name.model)) {
    for (const auto& [file, stamp] : model->stamps)
      out += fmt::format(" {}:{}:{}:{}", file, stamp.size, stamp.mtime_ns, stamp.inode);
  }
  for (const auto& held : parts_.admission->reservations())
    if (!held.lent) out += fmt::format(" {}={}", held.key, held.charged / step);
  return out;
}

}  // namespace gezel::service
