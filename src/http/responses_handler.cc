// POST /v1/responses.
#include "api/responses.h"
#include "api/responses_form.h"
#include "http/answer.h"
#include "http/routes.h"

namespace gezel::http {

asio::awaitable<void> responses(Call& call) {
  auto request = co_await parse_body(call, api::parse_responses_request);
  if (!request) {
    co_await call.fail(request.error());
    co_return;
  }
  api::ChatRequest chat = std::move(request->chat);
  const auto make_form = [&services = call.services, &request](const ReplyIdentity& identity) {
    return std::make_unique<api::ResponsesForm>(services.clock, services.entropy, identity.model,
                                                std::move(*request));
  };
  co_await answer(call, std::move(chat), "responses", make_form);
}

}  // namespace gezel::http
