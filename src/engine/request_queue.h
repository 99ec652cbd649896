// engine/request_queue.h
//
// Requests waiting for an engine's physical gate: by lane, first come first served within one, and nobody
// starves (spec 30 sections 8.1 to 8.4). Pure.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "prompt/request.h"

namespace gezel::engine {

// How many requests of one engine may be inside the worker at once, which orders them by itself.
constexpr int gate_width(int slots) {
  return slots * 4 < 64 ? slots * 4 : 64;
}

class RequestQueue {
 public:
  static constexpr std::size_t kMaxWaiting = 256;
  static constexpr Millis kStarving{60'000};

  // False: the queue is full. `since` is when the request came, which a request that is tried again keeps.
  bool push(std::uint64_t id, prompt::Lane lane, MonotonicTime since);
  std::optional<std::uint64_t> pop(MonotonicTime now);
  bool remove(std::uint64_t id);
  // Waiting requests that will be taken before `id`.
  std::size_t ahead_of(std::uint64_t id, MonotonicTime now) const;
  std::size_t size() const { return waiting_.size(); }
  bool empty() const { return waiting_.empty(); }

 private:
  struct Entry {
    std::uint64_t id;
    prompt::Lane lane;
    MonotonicTime since;
  };
  std::vector<Entry> waiting_;
};

}  // namespace gezel::engine
