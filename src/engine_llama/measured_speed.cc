#include "engine_llama/measured_speed.h"

#include <algorithm>

#include "gguf/metadata.h"

namespace gezel::engine_llama {
namespace {

// What models are loaded with unless somebody says otherwise; records have candidates of both types.
constexpr std::string_view kUsualCache = "f16";
constexpr double kDeepestKnown = 1 << 30;

}  // namespace

std::optional<MeasuredSpeed> measured_speed(const CalibrationRecord& record) {
  if (!record.complete) return std::nullopt;
  const auto* best = costmodel::choose(record.candidates, kUsualCache, record.mix);
  if (best == nullptr) return std::nullopt;
  const costmodel::Fit fit(*best);
  const auto tps = [](std::optional<double> ms, double tokens) {
    return ms && *ms > 0 ? 1'000 * tokens / *ms : 0;
  };
  MeasuredSpeed out{
      .decode_tps = tps(fit.decode_ms(1, record.mix.depth), 1),
      .shallow_tps = tps(fit.decode_ms(1, 0), 1),
      .prefill_tps = tps(fit.prefill_ms(record.mix.prompt, record.mix.depth), record.mix.prompt),
      .at_depth = static_cast<std::int64_t>(std::clamp(record.mix.depth, 0.0, kDeepestKnown)),
      .kv_type = best->setting.kv_type,
      .measured_at = record.measured_at,
      .undisturbed = record.clean};
  return out.decode_tps > 0 ? std::optional(std::move(out)) : std::nullopt;
}

std::map<std::string, MeasuredSpeed> measured_speeds(const std::filesystem::path& home) {
  std::map<std::string, MeasuredSpeed> out;
  // In the order of their time, so that the newest stays.
  for (const auto& record : CalibrationStore(home).all())
    if (auto speed = measured_speed(record)) out[record.model_id] = std::move(*speed);
  return out;
}

Result<capacity::TokenBytes> bytes_of_a_token(const std::filesystem::path& weights,
                                              const MeasuredSpeed& speed) {
  GEZEL_TRY(const auto metadata, gguf::read_model(weights));
  return capacity::token_bytes(
      metadata, capacity::parse_kv_type(speed.kv_type).value_or(capacity::KvType::f16), speed.at_depth);
}

}  // namespace gezel::engine_llama
