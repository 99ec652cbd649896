// capacity/window.h
//
// Whether a loaded model is worth loading again for a longer window: because a request needs more, or because
// memory was short when it was loaded and is not now (spec 20 sections 11.5, 12.4).
//
// Pure policy. A load is expensive and loses the prompts that the engine keeps, so a window grows by a
// quarter at least where that fits: however requests grow, a model is loaded a handful of times for them. It
// never shrinks for a request.
#pragma once
#include <string>
#include <string_view>

#include "capacity/launch.h"

namespace gezel::capacity {

// What a load gives that is worth nothing with fewer than `needed` tokens for each slot (0: whatever fits).
MemoryPlan plan_window(LaunchInput input, Tokens needed);

// How far a model's window could reach.
struct WindowReach {
  Tokens limit = 0;                 // never more than this: the model's own window, or the one a person named
  Tokens native = 0;                // what the model was trained for; 0: unknown
  bool named = false;               // a person named a window
  Tokens largest = 0;               // what a load would give at most now; 0: nothing
  Binding binding = Binding::none;  // what stands between `largest` and `limit`
};
// Idle models count as gone, busy ones as staying. `input.machine` is the state without the model itself.
WindowReach window_reach(const LaunchInput& input);

// The window to load with so that a request of `needed` tokens fits, in place of a loaded one of `loaded`:
// what it needs, or a quarter more than is loaded, or the longest there is. 0: no load gives it now.
Tokens reload_target(const WindowReach& reach, Tokens loaded, Tokens needed);

// Memory kept a window short that was planned with `planned` tokens, and a load would now get a quarter more
// without stopping another model. `now` is plan_window(input, 0).
bool outgrown(Tokens planned, const MemoryPlan& now);

// Why a slot of the model does not get `needed` tokens: whose limit that is, or what fits now and what stands
// in the way of more. One sentence.
std::string window_shortage(std::string_view name, Tokens needed, Tokens loaded, const WindowReach& reach);

}  // namespace gezel::capacity
