// engine/replica_caches.h
//
// The prompts that several workers of one model keep, as if they were one cache. Each worker numbers its own
// nodes; outside, a number says whose it is as well. What is about one node goes to its worker, what is about
// a conversation or everything to all, and their replies are put together.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "engine/engine.h"

namespace gezel::engine {

// A worker, by its number among all of the model's.
struct CacheKeeper {
  int replica = 0;
  std::shared_ptr<Engine> engine;
};

// The worker that a node's number names.
int replica_of_node(std::uint64_t node);

// list, and pin, unpin, drop and flush without a node, of all `keepers`; at least one. A worker that has
// nothing of a conversation, or is unloaded meanwhile, is an error only where all say so.
asio::awaitable<EngineResult<CacheReply>> ask_all(std::vector<CacheKeeper> keepers, CacheQuery query);
// Anything of one worker; the numbers in question and reply are those of outside.
asio::awaitable<EngineResult<CacheReply>> ask_one(CacheKeeper keeper, CacheQuery query);

// Their figures added up; the conversations, last used first. Nothing where none has any.
std::optional<CacheUse> cache_use_of(const std::vector<CacheKeeper>& keepers);

}  // namespace gezel::engine
