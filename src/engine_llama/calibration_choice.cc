#include "engine_llama/calibration_choice.h"

#include <algorithm>

namespace gezel::engine_llama {
namespace {

// With flash attention on a processor no shorter chunks are computed (costmodel/chunk_plan.h), and their
// times would bend the line that describes the others.
constexpr std::int64_t kTileRows = 64;

}  // namespace

std::optional<costmodel::Setting> chosen_setting(const CalibrationFacts& facts, std::string_view kv_type) {
  if (!facts.on() || !facts.record) return std::nullopt;
  std::vector<costmodel::Candidate> allowed = facts.record->candidates;
  std::erase_if(allowed, [&](const costmodel::Candidate& candidate) {
    return (facts.flash_attention && candidate.setting.flash_attention != *facts.flash_attention) ||
           (facts.threads && candidate.setting.threads != *facts.threads);
  });
  // Half a measurement compares nothing.
  if (!facts.record->complete) return std::nullopt;
  const auto* best = costmodel::choose(allowed, kv_type, facts.record->mix);
  return best == nullptr ? std::nullopt : std::optional(best->setting);
}

std::vector<protocol::KnownStep> known_steps(const CalibrationFacts& facts,
                                             const costmodel::Setting& setting) {
  std::vector<protocol::KnownStep> out;
  if (!facts.on() || !facts.record) return out;
  const auto found = std::ranges::find(facts.record->candidates, setting, &costmodel::Candidate::setting);
  if (found == facts.record->candidates.end()) return out;
  for (const auto& sample : found->samples) {
    const bool decode = sample.point.kind == costmodel::Point::Kind::decode;
    if (!decode && setting.flash_attention && sample.point.tokens < kTileRows) continue;
    out.push_back({decode ? "decode" : "prefill", sample.point.tokens, sample.point.depth, sample.ms});
  }
  return out;
}

}  // namespace gezel::engine_llama
