// worker/window_check.h
//
// Whether a prompt and the answer that was asked for fit the window, and what is done when they do not
// (spec 50 section 10.1). Pure.
#pragma once
#include <cstdint>
#include <optional>

namespace gezel::worker {

// So much of an answer must fit, unless less was asked for. In a small window a quarter of it.
inline constexpr std::int64_t kLeastAnswer = 256;

struct WindowQuestion {
  std::int64_t prompt = 0;
  std::optional<std::int64_t> answer;  // the most that the caller wants, where the caller said
  std::int64_t window = 0;             // that is loaded
  std::int64_t possible = 0;           // that could be loaded; 0: not more than is
};

struct WindowVerdict {
  enum class Kind {
    fits,
    cut,     // there is room for an answer, but not for the longest that was asked for
    longer,  // it fits the window that could be loaded
    over,    // it fits no window that can be had
  };
  Kind kind = Kind::fits;
  std::int64_t room = 0;    // for the answer, in the loaded window
  std::int64_t needed = 0;  // longer, over: the window it needs
};

// A longer window is asked for whenever the whole answer would fit it: an answer is cut only where that
// cannot be helped.
WindowVerdict check_window(const WindowQuestion& question);

}  // namespace gezel::worker
