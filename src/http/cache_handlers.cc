// Handlers of /api/cache: prompts that a model keeps.
#include <fmt/format.h>

#include <charconv>

#include "api/cache_json.h"
#include "api/field_reader.h"
#include "base/bytes.h"
#include "base/json.h"
#include "engine/on_pool.h"
#include "http/replies.h"
#include "http/routes.h"
#include "http/wire.h"

namespace gezel::http {
namespace {

using Op = engine::CacheQuery::Op;
using Outcome = service::CacheAnswer::Outcome;

// Above this a body is parsed on the pool: it would hold up every stream.
constexpr std::size_t kParseOnLoop = kMiB;

// The model of a GET, which must be named: numbers of nodes mean something within one model only.
api::ApiResult<std::string> model_in_query(const Call& call) {
  auto model = query_value(split_target(call.request.target).query, "model");
  if (!model || model->empty())
    return std::unexpected(
        api::invalid_request("invalid_body", "model: is required in the query, as in ?model=<id>", "model"));
  return std::move(*model);
}

asio::awaitable<api::ApiResult<api::CacheRequest>> parse(const Call& call, Op op) {
  const std::string& body = call.request.body;
  if (body.size() <= kParseOnLoop) co_return api::parse_cache_request(op, body);
  co_return co_await engine::on_pool(call.services.pool.get_executor(),
                                     [op, &body] { return api::parse_cache_request(op, body); });
}

// A body of one name and, beside it, whose it is.
struct NameInBody {
  std::string name, app;
};
api::ApiResult<NameInBody> text_members(const Call& call, std::string_view member) {
  const auto body = required_object(call);
  if (!body) return std::unexpected(body.error());
  api::Problems problems;
  const api::FieldReader fields(*body, "", problems);
  NameInBody out;
  if (const auto name = fields.required_string(member)) out.name = *name;
  out.app = fields.string("app").value_or(api::kDefaultApp);
  if (!problems.empty()) return std::unexpected(problems.to_error());
  return out;
}

// The operation is the last word of the route's path.
Op op_of(const Route& route) {
  const std::string_view word = route.path.substr(route.path.rfind('/') + 1);
  for (std::size_t i = 0; i < engine::kCacheOps.size(); ++i) {
    if (engine::kCacheOps[i] == word) return static_cast<Op>(i);
  }
  return Op::list;
}

}  // namespace

asio::awaitable<void> cache_nodes(Call& call) {
  auto model = model_in_query(call);
  if (!model) {
    co_await call.fail(model.error());
    co_return;
  }
  api::CacheRequest request;
  request.model = std::move(*model);
  const auto answer = co_await call.services.inference.cache(std::move(request));
  if (!answer) {
    co_await call.fail(answer.error());
  } else {
    co_await call.reply(200, to_json(api::cache_list_json(answer->model, answer->reply)));
  }
}

asio::awaitable<void> cache_node(Call& call) {
  auto model = model_in_query(call);
  if (!model) {
    co_await call.fail(model.error());
    co_return;
  }
  api::CacheRequest request;
  request.model = std::move(*model);
  request.query.op = Op::inspect;
  const std::string& text = call.path_tail;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), request.query.node);
  if (error != std::errc() || end != text.data() + text.size() || request.query.node == 0) {
    co_await call.fail(api::not_found("cache_node_unknown",
                                      "the last part of the path must be the number of a node, as GET "
                                      "/api/cache lists them",
                                      "id"));
    co_return;
  }
  const auto answer = co_await call.services.inference.cache(std::move(request));
  if (!answer) {
    co_await call.fail(answer.error());
  } else {
    co_await call.reply(200, to_json(api::cache_node_json(answer->model, answer->reply)),
                        {{"cache-control", "no-store"}});
  }
}

asio::awaitable<void> cache_stats(Call& call) {
  co_await call.reply(200, to_json(co_await call.services.inference.cache_stats()));
}

asio::awaitable<void> evict_session(Call& call) {
  const auto body = text_members(call, "sessionId");
  if (!body) {
    co_await call.fail(body.error());
    co_return;
  }
  const std::string key = api::session_key(body->app, body->name);
  if (key.empty()) {
    co_await call.fail(api::invalid_request(
        "invalid_body", fmt::format("sessionId: must have 1 to {} characters", api::kMaxSessionName),
        "sessionId"));
    co_return;
  }
  if (const auto forgotten = co_await call.services.inference.evict_session(key); !forgotten) {
    co_await call.fail(forgotten.error());
    co_return;
  }
  co_await call.reply(200, to_json(json::object{{"ok", true}, {"sessionId", body->name}}));
}

asio::awaitable<void> clear_cache(Call& call) {
  const auto body = text_members(call, "provider");
  if (!body) {
    co_await call.fail(body.error());
    co_return;
  }
  if (const auto cleared = co_await call.services.inference.clear_cache(body->name); !cleared) {
    co_await call.fail(cleared.error());
    co_return;
  }
  co_await call.reply(200, to_json(json::object{{"ok", true}, {"provider", body->name}}));
}

asio::awaitable<void> change_cache(Call& call) {
  const Op op = op_of(call.route);
  auto request = co_await parse(call, op);
  if (!request) {
    co_await call.fail(request.error());
    co_return;
  }
  call.request.body = {};
  const auto answer = co_await call.services.inference.cache(std::move(*request));
  if (!answer) {
    co_await call.fail(answer.error());
  } else if (answer->outcome == Outcome::done) {
    co_await call.reply(200, to_json(api::cache_reply_json(op, answer->model, answer->reply)));
  } else {
    co_await call.reply(
        202, to_json(json::object{
                 {"ok", true}, {"model", answer->model}, {"loaded", answer->outcome == Outcome::accepted}}));
  }
}

}  // namespace gezel::http
