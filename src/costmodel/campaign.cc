// There is no list of what is still to do: next() derives it from what was measured, so that a campaign can
// be dropped and made again from a record at any moment.
#include "costmodel/campaign.h"

#include <algorithm>
#include <limits>

namespace gezel::costmodel {
namespace {

constexpr std::int64_t kCellPadding = 256;
constexpr std::int64_t kSteps[] = {64, 16, 256, 512};  // in the order of measuring
constexpr std::int64_t kLeastDepth = 256;
// Beside the cells, the image that makes the depth exists twice for a moment: in parts, and put together.
constexpr Bytes kImageCopies = 2;

std::int64_t padded(std::int64_t tokens) {
  return (tokens + kCellPadding - 1) / kCellPadding * kCellPadding;
}

const Sample* sample_of(const Candidate& candidate, const Point& point) {
  const auto found = std::ranges::find(candidate.samples, point, &Sample::point);
  return found == candidate.samples.end() ? nullptr : &*found;
}

bool settled(const Sample& sample) {
  return sample.quality >= kCleanQuality || sample.visits >= kMostVisits;
}

}  // namespace

Campaign::Campaign(CampaignOptions options, std::vector<Candidate> known)
    : options_(std::move(options)), candidates_(std::move(known)) {
  const auto bytes = [&](int streams, std::int64_t depth) {
    const auto cells = static_cast<Bytes>(streams) * static_cast<Bytes>(padded(depth + kLongestChunk));
    return (cells + kImageCopies * static_cast<Bytes>(depth)) * options_.token_bytes;
  };
  deepest_ = std::min(kDeepest, options_.window);
  const auto middle = [&] { return std::min(kMiddleDepth, deepest_); };
  if (options_.memory == 0) return;
  while (streams_ > 1 && bytes(streams_, middle()) > options_.memory) streams_ /= 2;
  while (deepest_ > 0 && bytes(1, deepest_) > options_.memory)
    deepest_ = deepest_ > kLeastDepth ? deepest_ / 2 : 0;
  while (streams_ > 1 && bytes(streams_, middle()) > options_.memory) streams_ /= 2;
}

// A wide context for streams beside each other and the middle depth, then a deep one for one stream.
std::vector<Campaign::Step> Campaign::steps() const {
  std::vector<Step> out;
  const std::int64_t middle = std::min(kMiddleDepth, deepest_);
  const Shape wide{streams_, padded(middle + kLongestChunk)};
  const Shape deep{1, padded(deepest_ + kLongestChunk)};
  const auto add = [&](const Shape& shape, std::int64_t depth, bool first) {
    out.push_back({shape, {Point::Kind::decode, 1, depth}, true});
    for (const std::int64_t tokens : kSteps)
      out.push_back({shape, {Point::Kind::prefill, tokens, depth}, first && tokens == kSteps[0]});
    if (shape.streams > 1) out.push_back({shape, {Point::Kind::decode, shape.streams, depth}, false});
  };
  add(wide, 0, true);
  if (middle > 0) add(wide, middle, false);
  if (deepest_ > middle) add(deep, deepest_, false);
  return out;
}

std::vector<Setting> Campaign::settings() const {
  std::vector<Setting> out;
  for (const bool flash : options_.flash_attention)
    out.push_back({flash, options_.kv_type, options_.threads});
  return out;
}

const Candidate* Campaign::find(const Setting& setting) const {
  const auto found = std::ranges::find(candidates_, setting, &Candidate::setting);
  return found == candidates_.end() ? nullptr : &*found;
}

Candidate& Campaign::entry(const Setting& setting) {
  const auto found = std::ranges::find(candidates_, setting, &Candidate::setting);
  if (found != candidates_.end()) return *found;
  candidates_.push_back({.setting = setting});
  return candidates_.back();
}

double Campaign::budget_ms() const {
  return kCampaignMs / static_cast<double>(options_.flash_attention.size());
}

// Measuring again may cost as much as the first round once more.
bool Campaign::wanted(const Candidate* candidate, const Step& step) const {
  if (candidate == nullptr) return true;
  const Sample* sample = sample_of(*candidate, step.point);
  if (sample != nullptr && sample->visits > 0)
    return !settled(*sample) && candidate->spent_ms < 2 * budget_ms();
  if (step.anchor) return true;
  if (candidate->spent_ms >= budget_ms()) return false;
  const auto predicted = Fit(*candidate).ms(step.point);
  return !predicted || *predicted <= kSliceMs;
}

std::optional<Question> Campaign::next() const {
  if (exhausted_) return std::nullopt;
  const auto all = steps();
  // The point of these settings that was measured least often, in the order of measuring.
  const auto least = [&](const std::vector<Setting>& settings) {
    std::optional<Question> best;
    int visits = std::numeric_limits<int>::max();
    for (const Setting& setting : settings) {
      const Candidate* candidate = find(setting);
      for (const Step& step : all) {
        if (!wanted(candidate, step)) continue;
        const Sample* sample = candidate == nullptr ? nullptr : sample_of(*candidate, step.point);
        const int seen = sample == nullptr ? 0 : sample->visits;
        if (seen >= visits) continue;
        visits = seen;
        best = Question{setting, step.shape, step.point};
      }
    }
    return best;
  };
  const auto first = settings();
  if (auto question = least(first)) return question;
  // Then, with the better of them, one thread for each core.
  if (options_.physical_cores <= 0 || options_.physical_cores >= options_.threads) return std::nullopt;
  const Candidate* best = nullptr;
  std::vector<Candidate> measured;
  for (const Setting& setting : first)
    if (const Candidate* candidate = find(setting)) measured.push_back(*candidate);
  best = choose(measured, options_.kv_type, {});
  if (best == nullptr) return std::nullopt;
  Setting fewer = best->setting;
  fewer.threads = options_.physical_cores;
  return least({fewer});
}

void Campaign::measured(const Question& question, const Answer& answer) {
  if (!(answer.ms > 0)) return;
  Candidate& candidate = entry(question.setting);
  candidate.spent_ms += answer.spent_ms;
  if (question.shape == steps().front().shape) candidate.memory = answer.memory;
  auto found = std::ranges::find(candidate.samples, question.point, &Sample::point);
  if (found == candidate.samples.end())
    found = candidate.samples.insert(candidate.samples.end(), Sample{.point = question.point});
  ++found->visits;
  double quality = std::clamp(answer.cpu_ms / answer.ms, 0.0, 1.0);
  if (answer.next_ms > 0) quality = std::min(quality, answer.ms / answer.next_ms);
  if (found->ms > 0) {
    // Two rounds whose fastest calls agree prove each other: whatever else runs here always does.
    const double agreement = std::min(found->ms, answer.ms) / std::max(found->ms, answer.ms);
    quality = std::max(answer.ms < found->ms ? quality : found->quality, agreement);
  }
  found->quality = quality;
  found->ms = found->ms > 0 ? std::min(found->ms, answer.ms) : answer.ms;
}

void Campaign::refused(const Question& question) {
  // What was measured in a context of another shape cannot be compared.
  for (Candidate& candidate : candidates_) candidate.memory = 0;
  if (question.shape.streams > 1) {
    streams_ = question.shape.streams / 2;
  } else if (question.point.depth > 0 || question.shape.context > padded(kLongestChunk)) {
    const std::int64_t depth = question.shape.context - padded(kLongestChunk);
    deepest_ = depth > kLeastDepth ? std::min(deepest_, depth) / 2 : 0;
  } else {
    exhausted_ = true;
  }
}

bool Campaign::repeating() const {
  const auto question = next();
  if (!question) return false;
  const Candidate* candidate = find(question->setting);
  const Sample* sample = candidate == nullptr ? nullptr : sample_of(*candidate, question->point);
  return sample != nullptr && sample->visits > 0;
}

double Campaign::progress() const {
  if (!next()) return 1;
  double done = 0, all = 0;
  const auto each = steps();
  for (const Setting& setting : settings()) {
    const Candidate* candidate = find(setting);
    for (const Step& step : each) {
      all += 1;
      const Sample* sample = candidate == nullptr ? nullptr : sample_of(*candidate, step.point);
      if ((sample != nullptr && sample->visits > 0) || !wanted(candidate, step)) done += 1;
    }
  }
  return all > 0 ? std::min(0.99, done / all) : 0;
}

bool Campaign::clean() const {
  return std::ranges::all_of(candidates_, [&](const Candidate& candidate) {
    return candidate.setting.kv_type != options_.kv_type ||
           std::ranges::all_of(candidate.samples,
                               [](const Sample& sample) { return sample.quality >= kCleanQuality; });
  });
}

}  // namespace gezel::costmodel
