#include "turn/start_state.h"

namespace gezel::turn {

StartState start_state(const StartFacts& facts) {
  if (facts.statement == "1") return StartState::open;
  if (facts.statement == "0") return StartState::closed;
  if (!facts.template_opens) return StartState::unknown;
  const bool open = *facts.template_opens && facts.enable_thinking.value_or(true);
  return open ? StartState::open : StartState::closed;
}

}  // namespace gezel::turn
