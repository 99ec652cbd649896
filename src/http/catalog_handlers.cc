// Handlers of the catalog and of the default model.
#include "api/field_reader.h"
#include "base/json.h"
#include "http/replies.h"
#include "http/routes.h"
#include "http/wire.h"

namespace gezel::http {

asio::awaitable<void> catalog_items(Call& call) {
  const auto version = query_value(split_target(call.request.target).query, "version");
  co_await reply_result(call, co_await call.services.inference.catalog(call.path_tail, version.value_or("")));
}

asio::awaitable<void> catalog_updates(Call& call) {
  co_await call.reply(200, to_json(co_await call.services.inference.catalog_updates()));
}

asio::awaitable<void> check_catalog(Call& call) {
  co_await call.reply(200, to_json(co_await call.services.inference.check_catalog()));
}

asio::awaitable<void> set_catalog_updates(Call& call) {
  const auto body = required_object(call);
  if (!body) {
    co_await call.fail(body.error());
    co_return;
  }
  api::Problems problems;
  const api::FieldReader fields(*body, "", problems);
  const auto enabled = fields.boolean("enabled");
  std::optional<std::string> url;
  if (const auto text = fields.string("url")) url = std::string(*text);
  if (!problems.empty()) {
    co_await call.fail(problems.to_error());
    co_return;
  }
  co_await reply_result(call, co_await call.services.inference.set_catalog_updates(enabled, std::move(url)));
}

asio::awaitable<void> describe_default(Call& call) {
  co_await call.reply(200, to_json(co_await call.services.inference.describe_default()));
}

asio::awaitable<void> pin_default(Call& call) {
  const auto body = required_object(call);
  if (!body) {
    co_await call.fail(body.error());
    co_return;
  }
  api::Problems problems;
  const std::string model(api::FieldReader(*body, "", problems).required_string("model").value_or(""));
  if (!problems.empty()) {
    co_await call.fail(problems.to_error());
    co_return;
  }
  co_await reply_result(call, co_await call.services.inference.pin_default(model));
}

}  // namespace gezel::http
