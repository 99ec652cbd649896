// turn/start_state.h
//
// Does generation begin inside a reasoning block? Decided before the first byte, from spec 50 section 3.2. A
// wrong `closed` shows thoughts and a stray closer to the user; a wrong `open` swallows the answer.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

namespace gezel::turn {

enum class StartState : std::uint8_t {
  closed,
  open,
  unknown,  // as closed while streaming; a stray closer then moves what stood before it (3.3.5)
};

struct StartFacts {
  // The engine's own statement: the value of header X-Gezel-Reasoning-Open. "1" is open, "0" is closed, any
  // other value is no statement.
  std::optional<std::string_view> statement;
  // The rendered prompt ends inside a block (ends_inside_reasoning); nothing if the prompt is not known.
  std::optional<bool> template_opens;
  // `chat_template_kwargs.enable_thinking` of the request.
  std::optional<bool> enable_thinking;
};

// The statement; else open if the template opens and thinking is not switched off; else unknown.
StartState start_state(const StartFacts& facts);

}  // namespace gezel::turn
