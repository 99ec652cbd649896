#include "engine_llama/calibration_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/files.h"
#include "base/ids.h"
#include "base/log.h"

namespace gezel::engine_llama {
namespace {

constexpr int kVersion = 1;
constexpr Bytes kMaxRecordBytes = kMiB;
constexpr std::size_t kMostCandidates = 32, kMostSamples = 256;

using costmodel::Candidate;
using costmodel::Point;
using costmodel::Sample;

json::object sample_json(const Sample& sample) {
  return {{"kind", sample.point.kind == Point::Kind::decode ? "decode" : "prefill"},
          {"tokens", sample.point.tokens},
          {"depth", sample.point.depth},
          {"ms", sample.ms},
          {"quality", sample.quality},
          {"visits", sample.visits}};
}

json::object candidate_json(const Candidate& candidate) {
  json::array samples;
  for (const Sample& sample : candidate.samples) samples.push_back(sample_json(sample));
  return {{"flash_attention", candidate.setting.flash_attention},
          {"kv_type", candidate.setting.kv_type},
          {"threads", candidate.setting.threads},
          {"memory_bytes", candidate.memory},
          {"spent_ms", candidate.spent_ms},
          {"samples", std::move(samples)}};
}

std::optional<Sample> read_sample(const json::value& value) {
  if (!value.is_object()) return std::nullopt;
  const auto& object = value.get_object();
  const auto kind = string_or(object, "kind");
  Sample out;
  out.point.kind = kind == "decode" ? Point::Kind::decode : Point::Kind::prefill;
  out.point.tokens = int_or(object, "tokens", 0);
  out.point.depth = int_or(object, "depth", -1);
  out.ms = number_or(object, "ms", NAN);
  out.quality = number_or(object, "quality", NAN);
  out.visits = static_cast<int>(std::clamp<std::int64_t>(int_or(object, "visits", 0), 0, 1'000));
  const bool usable = (kind == "decode" || kind == "prefill") && out.point.tokens > 0 &&
                      out.point.depth >= 0 && std::isfinite(out.ms) && out.ms > 0 &&
                      std::isfinite(out.quality) && out.visits > 0;
  return usable ? std::optional(out) : std::nullopt;
}

std::optional<Candidate> read_candidate(const json::value& value) {
  if (!value.is_object()) return std::nullopt;
  const auto& object = value.get_object();
  Candidate out;
  out.setting.flash_attention = bool_or(object, "flash_attention", false);
  out.setting.kv_type = string_or(object, "kv_type");
  out.setting.threads = static_cast<int>(std::clamp<std::int64_t>(int_or(object, "threads", 0), 0, 1 << 20));
  out.memory = static_cast<Bytes>(std::max<std::int64_t>(0, int_or(object, "memory_bytes", 0)));
  out.spent_ms = number_or(object, "spent_ms", 0);
  const auto* samples = array_at(object, "samples");
  if (samples == nullptr || samples->size() > kMostSamples || out.setting.threads < 1 ||
      !std::isfinite(out.spent_ms) || (out.setting.kv_type != "f16" && out.setting.kv_type != "q8_0"))
    return std::nullopt;
  for (const auto& each : *samples) {
    auto sample = read_sample(each);
    if (!sample) return std::nullopt;
    out.samples.push_back(*sample);
  }
  return out;
}

std::optional<CalibrationRecord> read_record(const std::string& text) {
  const auto value = parse_json(text);
  if (!value || !value->is_object()) return std::nullopt;
  const auto& object = value->get_object();
  if (int_or(object, "version", 0) != kVersion) return std::nullopt;
  CalibrationRecord out;
  out.model_id = string_or(object, "model");
  out.measured_at = string_or(object, "measured_at");
  out.complete = bool_or(object, "complete", false);
  out.clean = bool_or(object, "clean", false);
  const auto* key = object_at(object, "key");
  const auto* candidates = array_at(object, "candidates");
  if (key == nullptr || candidates == nullptr || candidates->size() > kMostCandidates) return std::nullopt;
  out.key = {string_or(*key, "model"),
             string_or(*key, "engine"),
             string_or(*key, "cpu"),
             static_cast<int>(std::clamp<std::int64_t>(int_or(*key, "cores", 0), 0, 1 << 20)),
             string_or(*key, "backend"),
             static_cast<int>(std::clamp<std::int64_t>(int_or(*key, "workers", 1), 1, 1 << 20))};
  for (const auto& each : *candidates) {
    auto candidate = read_candidate(each);
    if (!candidate) return std::nullopt;
    out.candidates.push_back(std::move(*candidate));
  }
  if (const auto* mix = object_at(object, "mix")) {
    const costmodel::Mix read{number_or(*mix, "depth", NAN), number_or(*mix, "prompt", NAN),
                              number_or(*mix, "decoded", NAN)};
    for (const double part : {read.depth, read.prompt, read.decoded})
      if (!std::isfinite(part) || part < 0) return std::nullopt;
    out.mix = read;
  }
  return out;
}

}  // namespace

std::string CalibrationKey::id() const {
  auto text = fmt::format("{}\n{}\n{}\n{}\n{}", model, engine, cpu, cores, backend);
  if (workers > 1)
    text += fmt::format("\n{}", workers);  // records of a model's only worker stay as they were
  return sha256_hex(text).substr(0, 24);
}

std::optional<CalibrationRecord> CalibrationStore::find(const CalibrationKey& key) const {
  const auto file = folder_ / (key.id() + ".json");
  const auto text = read_file(file, kMaxRecordBytes);
  if (!text) return std::nullopt;
  auto record = read_record(*text);
  if (!record || record->key.id() != key.id()) {
    log_warn("a calibration cannot be used and is made again", {{"file", file.filename().string()}});
    return std::nullopt;
  }
  return record;
}

Result<> CalibrationStore::keep(const CalibrationRecord& record) const {
  GEZEL_CHECK(make_private_folder(folder_));
  std::error_code ignored;
  std::vector<std::pair<std::filesystem::file_time_type, std::filesystem::path>> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder_, ignored))
    if (entry.path().extension() == ".json") files.emplace_back(entry.last_write_time(ignored), entry.path());
  std::ranges::sort(files);
  for (std::size_t i = 0; i + kMostRecords <= files.size(); ++i)
    std::filesystem::remove(files[i].second, ignored);

  json::array candidates;
  for (const Candidate& candidate : record.candidates) candidates.push_back(candidate_json(candidate));
  const json::object object{
      {"version", kVersion},
      {"model", record.model_id},
      {"measured_at", record.measured_at},
      {"key",
       {{"model", record.key.model},
        {"engine", record.key.engine},
        {"cpu", record.key.cpu},
        {"cores", record.key.cores},
        {"backend", record.key.backend},
        {"workers", record.key.workers}}},
      {"complete", record.complete},
      {"clean", record.clean},
      {"mix", {{"depth", record.mix.depth}, {"prompt", record.mix.prompt}, {"decoded", record.mix.decoded}}},
      {"candidates", std::move(candidates)}};
  return write_file_atomic(folder_ / (record.key.id() + ".json"), to_json(object) + "\n");
}

std::vector<CalibrationRecord> CalibrationStore::all() const {
  std::vector<CalibrationRecord> out;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder_, ignored)) {
    if (entry.path().extension() != ".json" || out.size() >= kMostRecords) continue;
    const auto text = read_file(entry.path(), kMaxRecordBytes);
    if (!text) continue;
    if (auto record = read_record(*text)) out.push_back(std::move(*record));
  }
  std::ranges::sort(out, {}, [](const CalibrationRecord& record) {
    return std::pair(record.model_id, record.measured_at);
  });
  return out;
}

json::object describe_calibration(const CalibrationRecord& record, std::string_view kv_type) {
  const auto speeds = [&](const Candidate& candidate) {
    const costmodel::Fit fit(candidate);
    json::object out{{"flash_attention", candidate.setting.flash_attention},
                     {"kv_type", candidate.setting.kv_type},
                     {"threads", candidate.setting.threads}};
    if (const auto ms = fit.decode_ms(1, record.mix.depth); ms && *ms > 0) out["decode_tps"] = 1'000 / *ms;
    if (const auto ms = fit.prefill_ms(record.mix.prompt, record.mix.depth); ms && *ms > 0)
      out["prefill_tps"] = 1'000 * record.mix.prompt / *ms;
    out["memory_bytes"] = candidate.memory;
    out["fit_error"] = fit.error();
    return out;
  };
  const Candidate* chosen = costmodel::choose(record.candidates, kv_type, record.mix);
  json::array candidates;
  for (const Candidate& candidate : record.candidates) {
    json::object one = speeds(candidate);
    one["chosen"] = &candidate == chosen;
    json::array samples;
    for (const Sample& sample : candidate.samples) samples.push_back(sample_json(sample));
    one["samples"] = std::move(samples);
    candidates.push_back(std::move(one));
  }
  json::object out{{"source", chosen != nullptr ? "measured" : "estimated"}};
  if (chosen != nullptr) {
    const auto best = speeds(*chosen);
    for (const char* figure : {"decode_tps", "prefill_tps"})
      if (best.contains(figure)) out[figure] = best.at(figure);
  }
  out["at_depth"] = record.mix.depth;
  out["measured_at"] = record.measured_at;
  out["complete"] = record.complete;
  out["undisturbed"] = record.clean;
  out["candidates"] = std::move(candidates);
  return out;
}

}  // namespace gezel::engine_llama
