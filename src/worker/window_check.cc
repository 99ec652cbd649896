#include "worker/window_check.h"

#include <algorithm>

namespace gezel::worker {

WindowVerdict check_window(const WindowQuestion& question) {
  using enum WindowVerdict::Kind;
  // The caller's number may be any: compared with what is left, never added to the prompt first.
  const auto room_in = [&](std::int64_t window) { return window - question.prompt; };
  const auto least_in = [&](std::int64_t window) {
    const std::int64_t share = std::max<std::int64_t>(1, std::min(kLeastAnswer, window / 4));
    return std::min(question.answer.value_or(share), share);
  };
  const std::int64_t room = room_in(question.window);
  const std::int64_t possible = std::max(question.window, question.possible);
  WindowVerdict out{.kind = fits, .room = room};
  if (question.answer && *question.answer > room && *question.answer <= room_in(possible)) {
    out.kind = longer;
    out.needed = question.prompt + *question.answer;
  } else if (room >= least_in(question.window)) {
    out.kind = question.answer && *question.answer > room ? cut : fits;
  } else if (const std::int64_t more = room_in(possible); more >= least_in(possible)) {
    out.kind = longer;
    out.needed = question.prompt + std::min(more, question.answer.value_or(least_in(possible)));
  } else {
    out.kind = over;
    out.needed = question.prompt + least_in(question.window);
  }
  return out;
}

}  // namespace gezel::worker
