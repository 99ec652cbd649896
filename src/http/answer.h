// http/answer.h
//
// One generated answer on its way to a client, whatever API the request came by: waits for the engine's
// events, has them read (api/chat_turn.h) and worded (api/reply_form.h), and sends the bytes.
//
// A stream's status line is held back until the engine accepted the prompt, so that a refusal still gets its
// real HTTP status; only when that takes very long (a model being loaded) is the 200 sent ahead, since
// clients give up on silence.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "api/chat.h"
#include "api/reply_form.h"
#include "base/bytes.h"
#include "engine/on_pool.h"
#include "http/routes.h"

namespace gezel::http {

// What every part of a reply names, known once it is decided who answers.
struct ReplyIdentity {
  std::int64_t created = 0;  // seconds since the epoch
  std::string model;         // as the client named it, or the one that answers in place of none
  std::string build;         // "gezel-<version>"
};
using MakeForm = std::function<std::unique_ptr<api::ReplyForm>(const ReplyIdentity&)>;

// Answers a parsed request: its headers about queue and cache are read, its constraints checked, its
// generation runs to its end or the client's. `surface` names the API in the log.
asio::awaitable<void> answer(Call& call, api::ChatRequest request, std::string_view surface,
                             MakeForm make_form);

// Above this a body is parsed on the pool: it would hold up every other stream.
inline constexpr std::size_t kParseOnLoop = kMiB;

// The body as `parse(std::string_view)` reads it.
template <class Parse>
asio::awaitable<std::invoke_result_t<Parse&, std::string_view>> parse_body(Call& call, Parse parse) {
  const std::string_view body = call.request.body;
  if (body.size() <= kParseOnLoop) co_return parse(body);
  co_return co_await engine::on_pool(call.services.pool.get_executor(), [&] { return parse(body); });
}

}  // namespace gezel::http
