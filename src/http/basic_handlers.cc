// Handlers that answer with one document.
#include <algorithm>
#include <array>
#include <charconv>

#include "api/field_reader.h"
#include "base/json.h"
#include "http/replies.h"
#include "http/routes.h"
#include "http/wire.h"

namespace gezel::http {
namespace {

const api::Headers kNoStore{{"cache-control", "no-store"}};

constexpr std::int64_t kMostContext = std::int64_t{1} << 27;
constexpr std::int64_t kMostSlots = 64;

// Bodies that mean everything where they name nothing.
constexpr auto kStopMembers = std::to_array<std::string_view>({"model", "force"});
constexpr auto kClearMembers = std::to_array<std::string_view>({"model"});

// A whole number from 1 to `most` of the query; nothing when it is not there.
api::ApiResult<std::optional<std::int64_t>> query_count(std::string_view query, std::string_view name,
                                                        std::int64_t most) {
  const auto text = query_value(query, name);
  if (!text) return std::nullopt;
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), number);
  if (error == std::errc() && end == text->data() + text->size() && number >= 1 && number <= most)
    return number;
  return std::unexpected(api::invalid_request(
      "invalid_body", fmt::format("{}: is \"{}\"; it must be a whole number from 1 to {}", name, *text, most),
      std::string(name)));
}

// Whether any loaded model is answering or has requests waiting.
bool is_busy(const json::value& ps) {
  const auto* object = ps.if_object();
  const auto* models = object == nullptr ? nullptr : array_at(*object, "models");
  if (models == nullptr) return false;
  return std::ranges::any_of(*models, [](const json::value& model) {
    return model.is_object() &&
           (int_or(model.get_object(), "slots_busy", 0) > 0 || int_or(model.get_object(), "queued", 0) > 0);
  });
}

}  // namespace

asio::awaitable<void> list_models(Call& call) {
  co_await call.reply(200, to_json(co_await call.services.inference.list_models()));
}

asio::awaitable<void> retrieve_model(Call& call) {
  co_await reply_result(call, co_await call.services.inference.retrieve_model(call.path_tail));
}

asio::awaitable<void> health(Call& call) {
  if (call.stopping) {
    co_await call.reply(503, R"({"ok":false,"stopping":true})");
  } else {
    co_await call.reply(200, to_json(call.services.inference.health()));
  }
}

asio::awaitable<void> memory(Call& call) {
  co_await call.reply(200, to_json(call.services.inference.memory(call.caller.allows("ui"))));
}

asio::awaitable<void> memory_plan(Call& call) {
  const auto model = required_query(call, "model");
  if (!model) {
    co_await call.fail(model.error());
    co_return;
  }
  const auto query = split_target(call.request.target).query;
  const auto context = query_count(query, "context", kMostContext);
  const auto slots = query_count(query, "slots", kMostSlots);
  for (const auto* wish : {&context, &slots}) {
    if (*wish) continue;
    co_await call.fail(wish->error());
    co_return;
  }
  const GiveUpWithClient giving_up(call);
  service::PlanRequest wanted{.model = *model,
                              .wish = {.context = *context, .slots = {}},
                              .allow_network_names = call.caller.allows("ui"),
                              .cancelled = giving_up.cancelled()};
  if (*slots) wanted.wish.slots = static_cast<int>(**slots);
  co_await reply_result(call, co_await call.services.inference.memory_plan(std::move(wanted)));
}

asio::awaitable<void> ps(Call& call) {
  co_await call.reply(200, to_json(call.services.inference.ps()));
}

asio::awaitable<void> stats(Call& call) {
  const auto model = required_query(call, "model");
  if (!model) {
    co_await call.fail(model.error());
    co_return;
  }
  co_await reply_result(call, co_await call.services.inference.worker_stats(*model));
}

// With a model: unloads it. Without: ends the daemon, unless it is answering someone and nobody said force.
asio::awaitable<void> stop_model(Call& call) {
  const auto body = optional_object(call);
  if (!body) {
    co_await call.fail(body.error());
    co_return;
  }
  api::Problems problems;
  const api::FieldReader fields(*body, "", problems);
  const auto model = fields.string("model");
  const bool force = fields.boolean("force").value_or(false);
  fields.only(kStopMembers);
  if (!problems.empty()) {
    co_await call.fail(problems.to_error());
  } else if (model) {
    co_await reply_result(call, co_await call.services.inference.stop_model(std::string(*model), force));
  } else if (!force && is_busy(call.services.inference.ps())) {
    api::ApiError error = api::invalid_request("busy",
                                               "requests are still being answered; wait for them, or end "
                                               "them with \"force\": true (gezel stop --force)");
    error.status = 409;
    co_await call.fail(error);
  } else {
    co_await shutdown(call);
  }
}

// What was measured, of one model or of all.
asio::awaitable<void> tuned(Call& call) {
  const auto model = query_value(split_target(call.request.target).query, "model");
  co_await reply_result(call, co_await call.services.inference.calibration(model.value_or("")));
}

asio::awaitable<void> tune_model(Call& call) {
  const auto body = required_object(call);
  if (!body) {
    co_await call.fail(body.error());
    co_return;
  }
  api::Problems problems;
  const api::FieldReader fields(*body, "", problems);
  const auto model = fields.string("model");
  if (!model || model->empty()) fields.problem("model", "must name the model to measure");
  if (!problems.empty()) {
    co_await call.fail(problems.to_error());
  } else {
    co_await reply_result(call, co_await call.services.inference.calibrate(std::string(*model)));
  }
}

asio::awaitable<void> import_model(Call& call) {
  auto body = optional_object(call);
  if (!body) {
    co_await call.fail(body.error());
    co_return;
  }
  co_await reply_result(call, co_await call.services.inference.import_model(std::move(*body)));
}

asio::awaitable<void> quarantine(Call& call) {
  co_await call.reply(200, to_json(call.services.inference.quarantine()));
}

// Of one model, or of everything.
asio::awaitable<void> clear_quarantine(Call& call) {
  const auto body = optional_object(call);
  if (!body) {
    co_await call.fail(body.error());
    co_return;
  }
  api::Problems problems;
  const api::FieldReader fields(*body, "", problems);
  const auto model = fields.string("model");
  if (model && model->empty()) fields.problem("model", "must not be empty; leave it out to lift everything");
  fields.only(kClearMembers);
  if (!problems.empty()) {
    co_await call.fail(problems.to_error());
  } else {
    co_await reply_result(call, call.services.inference.clear_quarantine(std::string(model.value_or(""))));
  }
}

asio::awaitable<void> rotate_key(Call& call) {
  const auto key = call.services.credentials.rotate_api_key();
  if (!key) {
    co_await call.fail(api::from_error(key.error()));
    co_return;
  }
  const json::object body{{"key", *key}};
  co_await call.reply(200, to_json(body), kNoStore);
}

asio::awaitable<void> shutdown(Call& call) {
  co_await call.reply(202, R"({"stopping":true})");
  call.services.request_stop();
}

}  // namespace gezel::http
