#include "engine/replica_caches.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <string_view>
#include <utility>

#include "engine/replicas.h"
#include "engine/turn_book.h"

namespace gezel::engine {
namespace {

constexpr std::uint64_t kNumbers = kMostReplicas;

// 0 stands for no node, everywhere.
std::uint64_t outer(std::uint64_t node, int replica) {
  return node == 0 ? 0 : node * kNumbers + static_cast<std::uint64_t>(replica);
}

constexpr std::string_view kUnknownNode = "cache-node-unknown";  // as a worker says it of its own

EngineError unknown_node() {
  auto error = make_error("model_not_found", "The cache has no such node (any more).", "id");
  error.error.code = kUnknownNode;
  return error;
}

bool is_only_absent(const EngineError& error) {
  return error.error.code == kUnknownNode || error.error.code == "model_not_loaded";
}

void add(CacheReply& sum, CacheReply reply) {
  sum.nodes.insert(sum.nodes.end(), std::make_move_iterator(reply.nodes.begin()),
                   std::make_move_iterator(reply.nodes.end()));
  sum.count += reply.count;
}

void add(TurnFigures& sum, TurnFigures one) {
  // The last answers of each count as much as there are of them.
  const auto window = [](const TurnFigures& figures) {
    return static_cast<double>(std::min<std::uint64_t>(kTurnWindow, figures.hits + figures.misses));
  };
  const double answers = window(sum) + window(one);
  const double hits = sum.recent_hit_rate * window(sum) + one.recent_hit_rate * window(one);
  sum.recent_hit_rate = answers > 0 ? hits / answers : 0;
  sum.hits += one.hits;
  sum.misses += one.misses;
  sum.memory += one.memory;
  sum.disk += one.disk;
  sum.prefix += one.prefix;
  sum.fresh += one.fresh;
  sum.prompt_tokens += one.prompt_tokens;
  sum.cached_tokens += one.cached_tokens;
  sum.sessions.insert(sum.sessions.end(), std::make_move_iterator(one.sessions.begin()),
                      std::make_move_iterator(one.sessions.end()));
}

}  // namespace

int replica_of_node(std::uint64_t node) {
  return static_cast<int>(node % kNumbers);
}

asio::awaitable<EngineResult<CacheReply>> ask_one(CacheKeeper keeper, CacheQuery query) {
  if (query.node != 0) {
    // A number below the first of any worker would mean everything there.
    const bool known = query.node >= kNumbers && replica_of_node(query.node) == keeper.replica;
    if (!known) co_return std::unexpected(unknown_node());
    query.node /= kNumbers;
  }
  auto reply = co_await keeper.engine->cache(std::move(query));
  if (reply) {
    for (auto& node : reply->nodes) {
      node.id = outer(node.id, keeper.replica);
      node.parent = outer(node.parent, keeper.replica);
    }
  }
  co_return reply;
}

asio::awaitable<EngineResult<CacheReply>> ask_all(std::vector<CacheKeeper> keepers, CacheQuery query) {
  CacheReply sum;
  bool answered = false;
  std::optional<EngineError> absent, failed;
  for (const auto& keeper : keepers) {
    auto reply = co_await ask_one(keeper, query);
    if (reply) {
      answered = true;
      add(sum, std::move(*reply));
    } else if (auto& kept = is_only_absent(reply.error()) ? absent : failed; !kept) {
      kept = std::move(reply).error();
    }
  }
  if (failed) co_return std::unexpected(std::move(*failed));
  if (!answered && absent) co_return std::unexpected(std::move(*absent));
  co_return sum;
}

std::optional<CacheUse> cache_use_of(const std::vector<CacheKeeper>& keepers) {
  std::optional<CacheUse> sum;
  for (const auto& keeper : keepers) {
    auto use = keeper.engine->cache_use();
    if (!use) continue;
    if (!sum) sum.emplace();
    sum->bytes += use->bytes;
    sum->budget += use->budget;
    add(sum->turns, std::move(use->turns));
  }
  if (sum) std::ranges::stable_sort(sum->turns.sessions, std::ranges::greater(), &WarmSession::last_used);
  return sum;
}

}  // namespace gezel::engine
