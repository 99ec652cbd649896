// capacity/evict.h
//
// Who makes room, and when an idle engine leaves by itself (spec 20 section 13).
//
// Pure policy: it names engines and states what to do next. Stopping them, flushing their caches and waiting
// for their exit is the engine pool's work; a reservation is released only after the process is gone.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"

namespace gezel::capacity {

struct Resident {
  std::string key;           // "<engine>:<model>:<replica>"
  Bytes bytes = 0;           // what stopping it gives back
  int hits_last_minute = 0;  // requests in the last 60 s
  std::int64_t last_used_ms = 0;
  bool busy = false;  // its queue runs or holds something
  bool draining = false;
};

// Idle engines in the order in which they go: fewest hits in the last minute, then the longest unused. The
// engine `own_key` that is being started is never its own victim.
std::vector<Resident> idle_victims(std::vector<Resident> residents, const std::string& own_key);

struct Victims {
  std::vector<std::string> stop;     // all idle, at once
  std::optional<std::string> drain;  // no engine is idle: the busy one that is longest unused
  Bytes freed = 0;                   // by `stop`
  bool empty() const { return stop.empty() && !drain; }
};

// The first of them until `shortfall` is covered; called again while a shortfall remains.
Victims choose_victims(const std::vector<Resident>& residents, Bytes shortfall, const std::string& own_key);

// Waiting for a busy engine to finish. Running work is never killed.
inline constexpr std::int64_t kDrainPollMs = 500, kDrainCapMs = 30'000;
enum class DrainStep {
  wait,     // look again in kDrainPollMs
  stop,     // it is idle now
  give_up,  // still busy: the engine stays and takes work again, the request gets `engine-busy`
};
DrainStep drain_step(std::int64_t since_ms, std::int64_t now_ms, bool busy);

// --- leaving by itself

struct DeviceMemory {
  std::optional<Bytes> total, used;
};
// The devices that report both numbers are short of memory: free <= max(1 GiB, 8 % of the total). None
// does: not pressured.
bool devices_pressured(const std::vector<DeviceMemory>& devices);

inline constexpr std::int64_t kPressureGraceMs = 60'000;
inline constexpr std::int64_t kIdleTimeoutMs = 300'000, kSmallestIdleTimeoutMs = 60'000;

struct IdleInput {
  std::int64_t now_ms = 0, last_used_ms = 0;
  std::int64_t idle_timeout_ms = kIdleTimeoutMs;  // 0: never
  std::int64_t pressure_grace_ms = kPressureGraceMs;
  bool busy = false;
  bool pressured = false;
  bool flushed = false;  // caches were saved in this idle period
};
enum class IdleStep {
  keep,
  flush,          // save caches, stay loaded
  stop_idle,      // flush and stop, reason "idle"
  stop_pressure,  // flush and stop, reason "memory-pressure"
};
IdleStep idle_step(const IdleInput& input);

}  // namespace gezel::capacity
