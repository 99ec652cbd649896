// turn/guards.h
//
// Watching a text for what no longer leads anywhere: rambling past a limit, and repetition (spec 50 sections
// 9.1 and 9.2). Whether a guard applies at all (constrained output, pass-through, `guards: false`) is the
// caller's decision. All of them give the same answer for every split of the text.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gezel::turn {

// Characters of visible text in one iteration without a completed call.
struct RambleLimits {
  std::size_t before_call = 6000;  // no call in the turn so far
  std::size_t after_call = 1500;   // a call ran in the turn
  std::size_t inside = 32000;      // inside an unclosed call, reasoning block or code fence
};

struct RambleSettings {
  std::size_t limit = 6000;               // of a behaviour: clamped to 500..50000
  std::optional<std::size_t> after_call;  // of a behaviour: clamped to 200..20000
  bool leaky = false;                     // the family drifts to prose around calls: the limit is doubled
};
RambleLimits ramble_limits(const RambleSettings& settings);
bool leaky_family(std::string_view family);

// An exact cycle: the text ends in at least kCycleRepeats copies of something at most `max_period` units
// long, and they have at least kCycleChars characters together. Units are tokens where the engine gives them,
// else characters. One comparison per unit and period (the compiler makes vectors of them); memory is 5
// numbers per period.
inline constexpr std::size_t kCyclePeriodTokens = 256;
inline constexpr std::size_t kCyclePeriodChars = 1024;  // 256 tokens of 4 characters
inline constexpr std::size_t kCycleRepeats = 8;
inline constexpr std::size_t kCycleChars = 2400;

class CycleDetector {
 public:
  explicit CycleDetector(std::size_t max_period = kCyclePeriodTokens);
  // One more unit that stands for `chars` characters. True once a cycle was found, and from then on.
  bool feed(std::uint32_t unit, std::size_t chars);
  // Every character of UTF-8 text as a unit. Pieces may split characters.
  bool feed_text(std::string_view piece);
  bool found() const { return period_ != 0; }
  std::size_t period() const { return period_; }  // units; 0: none found

 private:
  bool check();

  std::size_t max_period_;
  std::size_t period_ = 0;
  // The last units, newest first from `newest_`, and the characters up to and including each.
  std::vector<std::uint32_t> units_;
  std::vector<std::uint64_t> chars_;
  std::size_t newest_ = 0;
  std::size_t size_ = 0;  // units kept, at most max_period + 1
  std::uint64_t total_chars_ = 0;
  std::vector<std::uint32_t> matches_;  // per period p: the last units that equal the one p before
  std::uint32_t scalar_ = 0;            // the character being put together by feed_text
  int scalar_missing_ = 0;              // bytes it still lacks
};

// Share of distinct word trigrams among all of them, in [0, 1]; 1 when there are none, or fewer than
// kTrigramWords distinct words. Words are separated by white space.
inline constexpr std::size_t kTrigramWindow = 2400;  // characters
inline constexpr std::size_t kTrigramWords = 8;
inline constexpr double kTrigramShare = 0.4;
double distinct_trigrams(std::string_view text);

// The rule for looped turns: in the last kTrigramWindow characters of the channel, fewer than kTrigramShare
// of the trigrams are distinct. Judged once the window is full and then every tenth of a window, when the
// next character begins. Feed only what is outside calls, reasoning and fences.
class TrigramGuard {
 public:
  // True once the rule triggered, and from then on.
  bool feed(std::string_view piece);
  bool triggered() const { return triggered_; }

 private:
  std::string window_;  // from begin_
  std::size_t begin_ = 0;
  std::size_t chars_ = 0;     // characters in the window
  std::size_t unjudged_ = 0;  // characters since the last judgement
  bool triggered_ = false;
};

// Whether a Markdown text is inside a code fence: a line that starts, after at most three blanks, with three
// or more backticks or tildes opens one; a line of at least as many of the same ends it.
class FenceTracker {
 public:
  void feed(std::string_view piece);
  bool inside() const { return open_length_ > 0; }

 private:
  void end_line();

  std::size_t open_length_ = 0;  // marks that opened the fence; 0: outside
  char open_mark_ = 0;
  // The line so far.
  std::size_t indent_ = 0;
  std::size_t marks_ = 0;
  char mark_ = 0;
  bool blank_ = false;     // blanks came after the marks
  bool other_ = false;     // something else than blanks came after the marks
  bool backtick_ = false;  // ... and it holds a backtick, which no info string of a backtick fence does
};

}  // namespace gezel::turn
