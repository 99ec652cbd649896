// engine/queue_widths.h
//
// How many requests an engine's queue lets go at once, by lane (spec 30 sections 8.2 and 8.7). Pure.
#pragma once
#include <optional>
#include <string_view>

namespace gezel::engine {

// All zero: nothing goes.
struct QueueWidths {
  int concurrency = 0;                  // of all lanes together
  int interactive = 0, background = 0;  // of each lane; batch work has the background lane's
  int physical = 0;                     // round trips that the engine itself takes at once
  bool operator==(const QueueWidths&) const = default;
};

enum class QueueKind {
  embedded,    // our own worker, which orders what it was given by itself
  supervised,  // another local engine that we started
  ds4,
  attached,  // a llama-server that somebody else started
  remote,
};
// The kind of that name; nothing when there is none.
std::optional<QueueKind> parse_queue_kind(std::string_view name);

// `slots` counts for the first two only; less than one counts as one.
QueueWidths queue_widths(QueueKind kind, int slots);

// How many requests of one engine may be inside the worker at once, which orders them by itself.
constexpr int gate_width(int slots) {
  return slots * 4 < 64 ? slots * 4 : 64;
}

}  // namespace gezel::engine
