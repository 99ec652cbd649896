#include "service/model_entry.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>

#include "capacity/requirement.h"
#include "service/model_name.h"

namespace gezel::service {
namespace {

std::string qualified_id(const models::InstalledModel& model) {
  return fmt::format("{}:{}", kLlamaProvider, model.id);
}

json::object performance_json(const Performance& performance) {
  // The engine's figures come from the requests it answered, so they are measured; calibration refines them
  // later.
  return {{"source", "measured"},
          {"decode_tps", performance.decode_tps},
          {"prefill_tps", performance.prefill_tps},
          {"measured_at", performance.measured_at},
          {"settings",
           {{"flash_attention", performance.flash_attention},
            {"kv_type", performance.kv_type},
            {"slots", performance.slots},
            {"context", performance.context}}}};
}

}  // namespace

std::optional<Performance> performance_of(const engine::Status& status, WallTime now) {
  if (status.decode_tps <= 0 && status.prefill_tps <= 0) return std::nullopt;
  return Performance{.decode_tps = status.decode_tps,
                     .prefill_tps = status.prefill_tps,
                     .measured_at = iso_time(now),
                     .flash_attention = status.flash_attention,
                     .kv_type = status.kv_type,
                     .slots = status.slots,
                     .context = status.context};
}

std::int64_t context_window(const models::InstalledModel& model, const ModelFacts& facts) {
  if (facts.context_granted > 0) return facts.context_granted;
  if (facts.context_planned) return *facts.context_planned;
  const std::int64_t usual = capacity::kUsualFloor;
  if (model.context_window <= 0) return facts.context_wanted.value_or(0);
  return std::min(model.context_window, facts.context_wanted.value_or(usual));
}

json::object list_entry(const models::InstalledModel& model, const ModelFacts& facts) {
  json::object entry{{"id", qualified_id(model)},
                     {"object", "model"},
                     {"created", unix_seconds_of(model.installed_at)},
                     {"owned_by", kLlamaProvider}};
  if (const auto window = context_window(model, facts); window > 0) entry["context_window"] = window;
  entry["availability"] = "available";
  entry["locality"] = "on-device";
  if (model.read_only) entry["read_only"] = true;
  return entry;
}

json::object full_entry(const models::InstalledModel& model, const ModelFacts& facts) {
  json::object entry = list_entry(model, facts);
  const std::string& name = facts.default_template.empty() ? model.default_template : facts.default_template;
  if (!name.empty()) entry["chat_template"] = name;
  json::object context{
      {"granted", facts.context_granted > 0 ? json::value(facts.context_granted) : json::value()},
      {"planned", facts.context_planned ? json::value(*facts.context_planned) : json::value()},
      {"native", model.context_window > 0 ? json::value(model.context_window) : json::value()},
      {"below_floor", facts.below_floor},
      {"slots", facts.slots > 0 ? json::value(facts.slots) : json::value()}};
  entry["context"] = std::move(context);
  if (facts.profile) entry["profile"] = *facts.profile;
  if (facts.performance) entry["performance"] = performance_json(*facts.performance);
  return entry;
}

json::object import_entry(const models::InstalledModel& model) {
  return {{"id", qualified_id(model)},
          {"name", model.name},
          {"source", model.source},
          {"size_bytes", model.size_bytes},
          {"architecture", model.architecture},
          {"quantization", model.quantization},
          {"context_window", model.context_window},
          {"chat_template_present", model.chat_template_present},
          {"installed_at", model.installed_at}};
}

std::int64_t unix_seconds_of(std::string_view iso) {
  // "YYYY-MM-DDTHH:MM:SS" and anything after it.
  constexpr std::string_view kShape = "0000-00-00T00:00:00";
  if (iso.size() < kShape.size()) return 0;
  for (std::size_t i = 0; i < kShape.size(); ++i) {
    const bool digit = iso[i] >= '0' && iso[i] <= '9';
    if (kShape[i] == '0' ? !digit : iso[i] != kShape[i]) return 0;
  }
  const auto number = [&](std::size_t at, std::size_t size) {
    int value = 0;
    std::from_chars(iso.data() + at, iso.data() + at + size, value);
    return value;
  };
  const std::chrono::year_month_day date{std::chrono::year(number(0, 4)),
                                         std::chrono::month(static_cast<unsigned>(number(5, 2))),
                                         std::chrono::day(static_cast<unsigned>(number(8, 2)))};
  if (!date.ok()) return 0;
  const std::chrono::sys_seconds time = std::chrono::sys_days(date) + std::chrono::hours(number(11, 2)) +
                                        std::chrono::minutes(number(14, 2)) +
                                        std::chrono::seconds(number(17, 2));
  return time.time_since_epoch().count();
}

}  // namespace gezel::service
