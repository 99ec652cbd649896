#include "turn/guards.h"

#include <algorithm>
#include <array>
#include <unordered_map>

namespace gezel::turn {
namespace {

constexpr std::array<std::string_view, 7> kLeakyFamilies = {"qwen2.5", "qwen3",  "qwq",   "deepseek-r1",
                                                            "gpt-oss", "gemma3", "gemma4"};

constexpr std::size_t kMinFence = 3, kMaxFenceIndent = 3;

bool begins_char(char c) {
  return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
}

}  // namespace

RambleLimits ramble_limits(const RambleSettings& settings) {
  RambleLimits limits;
  limits.before_call = std::clamp<std::size_t>(settings.limit, 500, 50000) * (settings.leaky ? 2 : 1);
  limits.after_call = settings.after_call ? std::clamp<std::size_t>(*settings.after_call, 200, 20000)
                                          : std::max<std::size_t>(500, limits.before_call / 4);
  limits.inside = std::max<std::size_t>(32000, 5 * limits.before_call);
  return limits;
}

bool leaky_family(std::string_view family) {
  return std::ranges::find(kLeakyFamilies, family) != kLeakyFamilies.end();
}

// --- exact cycles
//
// matches_[p - 1] counts how many units in a row equal the unit p before them. With m matches the last m + p
// units have period p, and hold (m + p) / p whole copies. Units are kept newest first, so that "the unit p
// before" of all periods is one contiguous run and the loop over periods has no branches.

CycleDetector::CycleDetector(std::size_t max_period)
    : max_period_(max_period),
      units_(2 * (max_period + 1)),
      chars_(2 * (max_period + 1)),
      newest_(units_.size()),
      matches_(max_period) {}

bool CycleDetector::feed(std::uint32_t unit, std::size_t chars) {
  if (found()) return true;
  const std::uint32_t* const past = units_.data() + newest_;
  const std::size_t periods = std::min(size_, max_period_);
  std::uint32_t enough = 0, needed = 0;
  for (std::size_t i = 0; i < periods; ++i) {
    needed += kCycleRepeats - 1;
    matches_[i] = past[i] == unit ? matches_[i] + 1 : 0;
    enough |= matches_[i] >= needed ? 1u : 0u;
  }

  const std::size_t keep = max_period_ + 1;
  if (newest_ == 0) {
    std::copy_n(units_.begin(), keep, units_.begin() + static_cast<std::ptrdiff_t>(keep));
    std::copy_n(chars_.begin(), keep, chars_.begin() + static_cast<std::ptrdiff_t>(keep));
    newest_ = keep;
  }
  --newest_;
  total_chars_ += chars;
  units_[newest_] = unit;
  chars_[newest_] = total_chars_;
  size_ = std::min(size_ + 1, keep);
  return enough != 0 && check();
}

bool CycleDetector::check() {
  for (std::size_t period = 1; period <= max_period_; ++period) {
    const std::size_t repeats = (matches_[period - 1] + period) / period;
    if (repeats < kCycleRepeats) continue;
    if (repeats * (total_chars_ - chars_[newest_ + period]) < kCycleChars) continue;
    period_ = period;
    return true;
  }
  return false;
}

bool CycleDetector::feed_text(std::string_view piece) {
  for (const char c : piece) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0xC0) {
      scalar_missing_ = byte >= 0xF0 ? 3 : byte >= 0xE0 ? 2 : 1;
      scalar_ = byte;
    } else {
      const bool continues = byte >= 0x80 && scalar_missing_ > 0;
      scalar_ = continues ? scalar_ << 8 | byte : byte;
      scalar_missing_ = continues ? scalar_missing_ - 1 : 0;
      if (scalar_missing_ == 0) feed(scalar_, 1);
    }
  }
  return found();
}

// --- trigrams

double distinct_trigrams(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n\f\v";
  std::unordered_map<std::string_view, std::uint32_t> numbers;
  std::vector<std::uint32_t> words;
  for (std::size_t at = text.find_first_not_of(kSpace); at != std::string_view::npos;) {
    const std::size_t end = std::min(text.find_first_of(kSpace, at), text.size());
    const auto next = static_cast<std::uint32_t>(numbers.size());
    words.push_back(numbers.try_emplace(text.substr(at, end - at), next).first->second);
    at = text.find_first_not_of(kSpace, end);
  }
  if (numbers.size() < kTrigramWords) return 1;
  std::vector<std::array<std::uint32_t, 3>> trigrams;
  for (std::size_t i = 2; i < words.size(); ++i) trigrams.push_back({words[i - 2], words[i - 1], words[i]});
  const auto all = static_cast<double>(trigrams.size());
  std::ranges::sort(trigrams);
  const auto repeated = std::ranges::unique(trigrams);
  return (all - static_cast<double>(repeated.size())) / all;
}

bool TrigramGuard::feed(std::string_view piece) {
  for (const char c : piece) {
    if (triggered_) break;
    if (begins_char(c)) {
      if (chars_ >= kTrigramWindow && unjudged_ >= kTrigramWindow / 10) {
        unjudged_ = 0;
        triggered_ = distinct_trigrams(std::string_view(window_).substr(begin_)) < kTrigramShare;
      }
      ++chars_;
      ++unjudged_;
    }
    // A character has at most three bytes after its first; more belong to none, and would let the window
    // grow.
    if (!begins_char(c) &&
        std::ranges::none_of(std::string_view(window_).substr(
                                 std::max(begin_, window_.size() - std::min<std::size_t>(3, window_.size()))),
                             begins_char)) {
      continue;
    }
    window_ += c;
    while (chars_ > kTrigramWindow) {
      do {
        ++begin_;
      } while (!begins_char(window_[begin_]));
      --chars_;
    }
    if (begin_ > kTrigramWindow * 4) {
      window_.erase(0, begin_);
      begin_ = 0;
    }
  }
  return triggered_;
}

// --- fences

void FenceTracker::feed(std::string_view piece) {
  for (const char c : piece) {
    if (c == '\n') {
      end_line();
    } else if (other_) {
      backtick_ |= c == '`';
    } else if (marks_ == 0 && c == ' ') {
      ++indent_;
    } else if ((marks_ == 0 && indent_ <= kMaxFenceIndent && (c == '`' || c == '~')) ||
               (marks_ > 0 && !blank_ && c == mark_)) {
      mark_ = c;
      ++marks_;
    } else if (marks_ > 0 && (c == ' ' || c == '\t' || c == '\r')) {
      blank_ = true;
    } else {
      other_ = true;
      backtick_ |= c == '`';
    }
  }
}

void FenceTracker::end_line() {
  if (open_length_ > 0) {
    if (mark_ == open_mark_ && marks_ >= open_length_ && !other_) open_length_ = 0;
  } else if (marks_ >= kMinFence && !(mark_ == '`' && backtick_)) {
    open_length_ = marks_;
    open_mark_ = mark_;
  }
  indent_ = marks_ = 0;
  mark_ = 0;
  blank_ = other_ = backtick_ = false;
}

}  // namespace gezel::turn
