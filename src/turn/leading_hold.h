// turn/leading_hold.h
//
// Content that begins like a JSON call is not streamed before it is known to be none (spec 50 section 4.4.4),
// so that a model which writes its calls as plain JSON never shows them. Only the stream waits: the finished
// message is the same with and without.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "turn/json_extent.h"
#include "turn/names.h"

namespace gezel::turn {

inline constexpr std::size_t kMaxHeldContent = 16384;

class LeadingHold {
 public:
  // Off, everything may be streamed. `tools` must outlive this.
  LeadingHold(bool on, const ToolNames& tools)
      : tools_(tools), state_(on ? State::beginning : State::released) {}

  // `content` is the content so far. How many of its bytes may be streamed.
  std::size_t streamable(std::string_view content);
  // From now on everything may be streamed: a strong call came, so this is content.
  void release() { state_ = State::released; }

 private:
  enum class State : std::uint8_t {
    beginning,  // what it begins with is not known yet
    value,      // inside the first value
    call,       // the first value is a call
    released,
  };
  bool begins_value(std::string_view content);

  const ToolNames& tools_;
  State state_;
  std::size_t value_begin_ = 0;
  std::size_t read_ = 0;
  JsonExtent extent_;
};

}  // namespace gezel::turn
