#include "turn/leading_hold.h"

#include <algorithm>

#include "turn/input.h"
#include "turn/tolerant_json.h"
#include "turn/weak_scan.h"

namespace gezel::turn {

// Sets the state once the beginning decides it. False: too little has arrived.
bool LeadingHold::begins_value(std::string_view content) {
  const auto after_space = [&](std::size_t at) {
    while (at < content.size() && is_space(content[at])) ++at;
    return at;
  };
  constexpr std::string_view kFence = "```json";
  std::size_t at = after_space(0);
  const std::string_view text = content.substr(at);
  if (text.empty()) return false;
  if (text.starts_with(kFence)) {
    value_begin_ = at + kFence.size();
    state_ = State::value;
    return true;
  }
  if (kFence.starts_with(text)) return false;
  if (text.front() == '[') {
    const std::size_t first = after_space(at + 1);
    if (first == content.size()) return false;
    state_ = content[first] == '{' ? State::value : State::released;
  } else {
    state_ = text.front() == '{' ? State::value : State::released;
  }
  value_begin_ = at;
  return true;
}

std::size_t LeadingHold::streamable(std::string_view content) {
  if (state_ == State::released) return content.size();
  if (content.size() >= kMaxHeldContent) {
    release();
    return content.size();
  }
  if (state_ == State::beginning) {
    if (!begins_value(content)) return 0;
    read_ = value_begin_;
  }
  if (state_ == State::value) {
    const JsonStatus status = extent_.feed(content.substr(read_));
    read_ = content.size();
    if (status == JsonStatus::incomplete) return 0;
    state_ = State::released;
    if (status == JsonStatus::complete) {
      const std::string_view value = content.substr(value_begin_, extent_.end());
      const JsonRead read = read_json(value);
      if (read.status == JsonStatus::complete && is_call_envelope(read.value, tools_)) state_ = State::call;
    }
  }
  return state_ == State::released ? content.size() : 0;
}

}  // namespace gezel::turn
