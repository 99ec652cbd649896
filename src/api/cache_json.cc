#include "api/cache_json.h"

#include <fmt/format.h>

#include <limits>

#include "api/chat.h"
#include "api/exchange.h"
#include "api/field_reader.h"

namespace gezel::api {
namespace {

using Op = engine::CacheQuery::Op;

bool takes_prompt(Op op) {
  return op == Op::warm || op == Op::explain;
}
bool takes_node(Op op) {
  return op == Op::pin || op == Op::unpin || op == Op::drop;
}

json::object node_json(const engine::CacheNode& node) {
  return {{"id", node.id},
          {"parent", node.parent == 0 ? json::value() : json::value(node.parent)},
          {"start", node.start},
          {"end", node.end},
          {"class", node.kind},
          {"hits", node.hits},
          {"pins", node.pins},
          {"bytes", json::object{{"host", node.host_bytes}, {"disk", node.disk_bytes}}},
          {"slot", node.slot ? json::value(*node.slot) : json::value()},
          {"last_use", iso_time(node.last_use)}};
}

// The node or the session that is meant: one of both.
void read_target(const FieldReader& fields, CacheRequest& out) {
  const auto id = fields.integer("id", 1, std::numeric_limits<std::int64_t>::max());
  const auto session = fields.string("session");
  if (session) {
    out.query.session = session_key(out.app, *session);
    if (out.query.session.empty())
      fields.problem("session",
                     fmt::format("must be a session's name of 1 to {} characters", kMaxSessionName));
  }
  if (id) out.query.node = static_cast<std::uint64_t>(*id);
  if (fields.field("id") != nullptr && fields.field("session") != nullptr) {
    fields.problem("session", "must not stand beside id; name one of them");
  } else if (fields.field("id") == nullptr && fields.field("session") == nullptr) {
    fields.problem("id", "is required: the number of a node, or a session in `session`");
  }
}

}  // namespace

ApiResult<CacheRequest> parse_cache_request(Op op, std::string_view body) {
  const auto object = parse_body(body);
  if (!object) return std::unexpected(object.error());
  CacheRequest out;
  out.query.op = op;
  Problems problems;
  const FieldReader fields(*object, "", problems);
  if (const auto model = fields.required_string("model")) out.model = *model;
  out.app = fields.string("app").value_or(kDefaultApp);
  if (takes_node(op)) read_target(fields, out);
  if (op == Op::warm) {
    out.start = fields.boolean("start").value_or(false);
    out.wait = fields.boolean("wait").value_or(false);
  }
  const auto session = fields.string("session");
  if (!problems.empty()) return std::unexpected(problems.to_error());
  if (!takes_prompt(op)) return out;
  auto chat = parse_chat_request(body);
  if (!chat) return std::unexpected(std::move(chat).error());
  out.query.request = std::move(chat->generate);
  out.query.request->session_key =
      session_key(out.app, session.value_or(std::string_view(out.query.request->session_key)));
  out.query.request->tenant = out.app;
  return out;
}

json::object prefix_break_json(const engine::PrefixBreak& found) {
  json::object out{{"matched", found.matched},
                   {"previous", found.previous},
                   {"at_message", found.at_message ? json::value(*found.at_message) : json::value()}};
  if (!found.before.empty() || !found.now.empty() || !found.then.empty()) {
    out["snippets"] = json::object{{"before", found.before}, {"now", found.now}, {"then", found.then}};
  }
  return out;
}

json::object cache_list_json(std::string_view model, const engine::CacheReply& reply) {
  json::array nodes;
  nodes.reserve(reply.nodes.size());
  for (const auto& node : reply.nodes) nodes.push_back(node_json(node));
  return {{"model", model}, {"count", reply.count}, {"nodes", std::move(nodes)}};
}

json::object cache_node_json(std::string_view model, const engine::CacheReply& reply) {
  json::object out = reply.nodes.empty() ? json::object() : node_json(reply.nodes.front());
  out["model"] = model;
  out["text"] = reply.text;
  return out;
}

json::object cache_use_json(const engine::CacheUse& use) {
  const auto& turns = use.turns;
  json::array sessions;
  for (const auto& session : turns.sessions) {
    sessions.push_back(json::object{{"sessionId", session.session},
                                    {"tokenCount", session.tokens},
                                    {"bytes", session.bytes},
                                    {"lastUsedAt", iso_time(session.last_used)},
                                    {"evictionPriority", "normal"}});
  }
  return {
      {"totalBytes", use.bytes},
      {"budgetBytes", use.budget},
      {"warmSessionCount", sessions.size()},
      {"hits", turns.hits},
      {"misses", turns.misses},
      {"recentHitRate", turns.recent_hit_rate},
      {"hitsBySource",
       json::object{
           {"memory", turns.memory}, {"disk", turns.disk}, {"prefix", turns.prefix}, {"fresh", turns.fresh}}},
      {"gezels", json::array()},
      {"sessions", std::move(sessions)},
      {"cachedTokensTotal", turns.cached_tokens},
      {"promptTokensTotal", turns.prompt_tokens}};
}

json::object cache_reply_json(Op op, std::string_view model, const engine::CacheReply& reply) {
  json::object out{{"ok", true}, {"model", model}};
  switch (op) {
    case Op::warm:
      out["prompt_tokens"] = reply.tokens;
      out["cached_tokens"] = reply.cached_tokens;
      break;
    case Op::explain:
      out["prompt_tokens"] = reply.count;
      out["reusable_tokens"] = reply.tokens;
      out["prefix_break"] =
          reply.prefix_break ? json::value(prefix_break_json(*reply.prefix_break)) : json::value();
      break;
    case Op::flush:
      out["records"] = reply.count;
      break;
    default:
      out["nodes"] = reply.count;
  }
  return out;
}

}  // namespace gezel::api
