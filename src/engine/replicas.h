// engine/replicas.h
//
// One model in several workers behind the interface of one engine (spec 30 sections 7.6 to 7.8). Each worker
// has memory, slots, caches and a queue of its own; requests are spread over them (engine/router.h).
//
// The first worker is loaded as the model's only one would be. The others are an extra: one is loaded in the
// background when a request would have been better off there, if memory for it is free without anybody making
// way, and until it is ready the loaded ones serve. Like every engine it is unloaded when it is idle.
#pragma once
#include <functional>
#include <memory>

#include "base/clock.h"
#include "engine/engine.h"

namespace gezel::engine {

inline constexpr int kMostReplicas = 16;      // that can be asked for
inline constexpr int kUsualMostReplicas = 4;  // that are made where nobody raised it
// After a load of an extra worker that failed, so long none is tried.
inline constexpr Millis kReplicaPause{60'000};

struct ReplicaParts {
  boost::asio::any_io_executor loop;
  const Clock& clock;
  int count = 1;  // at least 1
  // The engine with that number; called for each at once, starts nothing.
  std::function<std::unique_ptr<Engine>(int replica)> make;
};
std::unique_ptr<Engine> make_replicas(ReplicaParts parts);

}  // namespace gezel::engine
