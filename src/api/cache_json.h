// api/cache_json.h
//
// What routes under /api/cache take and say (docs/api.md, "The prefix cache"). Pure.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "api/error.h"
#include "base/json.h"
#include "engine/cache.h"

namespace gezel::api {

// The application of the API key: whose sessions are meant where none is named.
inline constexpr std::string_view kDefaultApp = "default";

// A body of POST /api/cache/{warm|explain|pin|unpin|drop|flush}.
struct CacheRequest {
  std::string model;
  std::string app;  // whose sessions and kept tool calls are meant
  engine::CacheQuery query;
  bool start = false;  // warm: load the model if it is not loaded
  bool wait = false;   // warm: answer when it is done
};
// Every bad field is named. explain and warm take the body of a chat request (api/chat.h) in which `model`
// must stand; pin, unpin and drop take `id` or `session`.
ApiResult<CacheRequest> parse_cache_request(engine::CacheQuery::Op op, std::string_view body);

// The bodies of the answers.
json::object cache_list_json(std::string_view model, const engine::CacheReply& reply);
json::object cache_node_json(std::string_view model, const engine::CacheReply& reply);
json::object cache_reply_json(engine::CacheQuery::Op op, std::string_view model,
                              const engine::CacheReply& reply);
// {totalBytes, budgetBytes, warmSessionCount, hits, misses, recentHitRate, hitsBySource, gezels, sessions,
// cachedTokensTotal, promptTokensTotal} (spec 40 section 2.5).
json::object cache_use_json(const engine::CacheUse& use);
// {matched, previous, at_message, snippets}; `snippets` {before, now, then} only where there is text.
json::object prefix_break_json(const engine::PrefixBreak& found);

}  // namespace gezel::api
