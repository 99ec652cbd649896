// grammar/compile_cache.h
//
// Compiled constraints, kept by what they were compiled from. Most clients send the same schema or the same
// tools with every request.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "base/bytes.h"
#include "grammar/constraint.h"

namespace gezel::grammar {

struct CompileCacheLimits {
  std::size_t entries = 64;
  Bytes bytes = 256 * kMiB;  // estimated: the library does not tell what a compiled constraint takes
};

struct CompileCacheStats {
  std::uint64_t hits = 0;
  std::uint64_t misses = 0;
  std::size_t entries = 0;
  Bytes bytes = 0;
};

// Safe to use from any thread. Threads that want the same constraint at the same time wait for the one that
// compiles it.
class CompileCache {
 public:
  explicit CompileCache(const CompileCacheLimits& limits = {}) : limits_(limits) {}

  // A matcher at its beginning, of the caller's own. Errors as compile(); they are not kept.
  Result<Matcher> get(const ConstraintSpec& spec, const std::shared_ptr<const Vocabulary>& vocabulary,
                      const MatcherLimits& limits = {});
  CompileCacheStats stats() const;

  // What an entry counts as: a base for the automaton, and the rules in proportion to the text.
  static Bytes estimate(const ConstraintSpec& spec) {
    return 128 * kKiB + 40 * static_cast<Bytes>(spec.text.size());
  }

 private:
  struct Entry {
    std::string key;
    Bytes bytes = 0;
    std::unique_ptr<Matcher> pristine;  // null while it is being compiled
  };
  using Entries = std::list<Entry>;
  void evict();

  CompileCacheLimits limits_;
  mutable std::mutex mutex_;
  std::condition_variable compiled_;
  Entries entries_;  // most recently used first
  std::map<std::string, Entries::iterator, std::less<>> index_;
  CompileCacheStats stats_;
};

}  // namespace gezel::grammar
