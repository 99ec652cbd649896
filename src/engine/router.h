// engine/router.h
//
// Which of a model's workers serves a request (spec 30 section 7.7). A conversation stays with the worker
// that served it, whose caches are warm; a new one goes where the fewest are; a request that belongs to none
// goes where the least is to do. Pure: the caller says what time it is and how the workers are.
#pragma once
#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "base/clock.h"

namespace gezel::engine {

class Router {
 public:
  // Conversations that are remembered; the one unused for longest is forgotten first.
  static constexpr std::size_t kMostSessions = 1024;
  static constexpr Millis kSessionTime{1'800'000};  // unused for so long a conversation is over

  // What a worker is at this moment.
  struct Replica {
    bool ready = false;     // its model is loaded
    bool draining = false;  // it takes nothing new
    int requests = 0;       // that it has, or that wait for it
  };
  struct Route {
    int replica = 0;
    // A worker that is not loaded and would have been the better one: worth a load, if there is room.
    std::optional<int> missed;
  };
  // `session` "": the request belongs to no conversation. Only loaded workers are chosen as long as there is
  // one that takes new work; without one it is the conversation's own, else the first. Precondition: there is
  // a worker.
  Route bind(const std::string& session, std::span<const Replica> replicas, MonotonicTime now);

  // Where a conversation is; nothing for one that is not known, or over.
  std::optional<int> home(const std::string& session, MonotonicTime now);
  // Conversations of a worker that are not over.
  int sessions(int replica, MonotonicTime now);

 private:
  struct Binding {
    int replica = 0;
    MonotonicTime used{};
  };
  void forget(MonotonicTime now);
  void remember(const std::string& session, int replica, MonotonicTime now);

  std::map<std::string, Binding> sessions_;
};

}  // namespace gezel::engine
