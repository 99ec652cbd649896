// POST /v1/chat/completions.
#include "api/chat_form.h"
#include "http/answer.h"
#include "http/routes.h"

namespace gezel::http {

asio::awaitable<void> chat_completions(Call& call) {
  auto request = co_await parse_body(call, api::parse_chat_request);
  if (!request) {
    co_await call.fail(request.error());
    co_return;
  }
  api::ChatReplyHead head;
  head.id = "chatcmpl-" + new_uuid(call.services.entropy);
  head.include_usage = request->include_usage;
  const auto make_form = [head,
                          logprobs = request->generate.logprobs](const ReplyIdentity& identity) mutable {
    head.created = identity.created;
    head.model = identity.model;
    head.system_fingerprint = identity.build;
    return std::make_unique<api::ChatForm>(std::move(head), logprobs);
  };
  co_await answer(call, std::move(*request), "chat", make_form);
}

}  // namespace gezel::http
