#include "http/replies.h"

#include <fmt/format.h>

#include "api/field_reader.h"
#include "http/wire.h"

namespace gezel::http {

api::ApiResult<json::object> required_object(const Call& call) {
  return api::parse_body(call.request.body);
}

api::ApiResult<json::object> optional_object(const Call& call) {
  if (call.request.body.empty()) return json::object();
  return required_object(call);
}

api::ApiResult<std::string> required_query(const Call& call, std::string_view name) {
  auto value = query_value(split_target(call.request.target).query, name);
  if (value && !value->empty()) return std::move(*value);
  return std::unexpected(api::invalid_request(
      "invalid_body", fmt::format("{0}: is required in the query, as in ?{0}=<id>", name),
      std::string(name)));
}

asio::awaitable<void> reply_result(Call& call, const api::ApiResult<json::value>& result) {
  if (!result) {
    co_await call.fail(result.error());
  } else {
    co_await call.reply(200, to_json(*result));
  }
}

GiveUpWithClient::GiveUpWithClient(Call& call) : response_(call.response) {
  response_.on_cancel([cancelled = cancelled_](api::CancelReason) { cancelled->cancel(); });
}
GiveUpWithClient::~GiveUpWithClient() {
  response_.on_cancel({});
}

api::Headers event_stream_headers() {
  return {{"content-type", "text/event-stream"}, {"cache-control", "no-cache"}, {"x-accel-buffering", "no"}};
}

}  // namespace gezel::http
