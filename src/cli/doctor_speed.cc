// One token of one conversation reads all weights that take part and the cache of what came before. What that
// comes to in a second, by what memory delivers in a second, says whether a model waits for memory. If it
// does not, the time that a token takes longer at the depth of a conversation than at its beginning says
// whether it is attention; what is left is computing.
#include "cli/doctor_speed.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "cli/table.h"

namespace gezel::cli {
namespace {

constexpr std::string_view kArea = "speed";
constexpr double kGiga = 1e9;  // memory is sold by it
constexpr std::size_t kMostNamed = 5;

struct Bottleneck {
  std::string text, remedy;
};

Bottleneck bottleneck_of(const SpeedFacts& facts, double share) {
  const bool reads_cache = facts.cache > facts.weights;
  if (share >= 1) return {"what it reads stays in the processor's cache, its cores are the limit", ""};
  if (share >= kMemoryBound) {
    if (reads_cache && facts.kv_type == "f16")
      return {"memory bandwidth is the limit, for the cache of the conversation",
              "gezel serve --kv-type q8_0 halves that cache"};
    return {"memory bandwidth is the limit; a smaller quantization would be faster", ""};
  }
  const double before = facts.shallow_tps > 0 ? 1 - facts.decode_tps / facts.shallow_tps : 0;
  if (before >= kAttentionBound) {
    return {fmt::format("attention over the {} tokens before is the limit ({:.0f} % of the time)",
                        group_digits(facts.at_depth), 100 * before),
            ""};
  }
  return {"the processor's cores are the limit", ""};
}

Finding judge(const SpeedFacts& facts, std::optional<double> memory_speed) {
  const Bytes bytes = facts.weights + facts.cache;
  const double used = facts.decode_tps * static_cast<double>(bytes);
  std::string detail =
      fmt::format("{:.1f} tok/s at a depth of {} tokens", facts.decode_tps, group_digits(facts.at_depth));
  std::string remedy;
  if (memory_speed && bytes > 0) {
    const double share = used / *memory_speed;
    auto bottleneck = bottleneck_of(facts, share);
    detail += fmt::format("; a token reads {}, {:.1f} GB/s or {:.0f} % of memory's speed: {}",
                          format_bytes(bytes), used / kGiga, 100 * share, bottleneck.text);
    remedy = std::move(bottleneck.remedy);
  }
  if (!facts.undisturbed) {
    detail += "; other programs disturbed the measurement";
    if (remedy.empty()) remedy = fmt::format("gezel tune {}", facts.model);
  }
  return {std::string(kArea), facts.model, Verdict::good, std::move(detail), std::move(remedy)};
}

}  // namespace

Findings judge_speeds(const std::vector<SpeedFacts>& models, std::optional<double> memory_speed, int threads,
                      const std::vector<std::string>& unknown) {
  Findings out;
  if (!models.empty()) {
    out.push_back(memory_speed ? Finding{std::string(kArea), "memory", Verdict::good,
                                         fmt::format("{:.1f} GB/s, read by {} thread{}",
                                                     *memory_speed / kGiga, threads, threads == 1 ? "" : "s"),
                                         ""}
                               : Finding{std::string(kArea), "memory", Verdict::note,
                                         "its speed was not measured: too little of it is free", ""});
  }
  for (const auto& facts : models) out.push_back(judge(facts, memory_speed));
  if (!unknown.empty()) {
    const auto named = std::span(unknown).first(std::min(unknown.size(), kMostNamed));
    out.push_back(
        {std::string(kArea), "models", Verdict::note,
         fmt::format(
             "not measured yet: {}{}", fmt::join(named, ", "),
             unknown.size() > named.size() ? fmt::format(" and {} more", unknown.size() - named.size()) : ""),
         fmt::format("gezel tune {}", unknown.front())});
  }
  return out;
}

}  // namespace gezel::cli
