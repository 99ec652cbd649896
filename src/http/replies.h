// http/replies.h
//
// What handlers do alike: read a JSON object from the body or a value from the query, answer with a value or
// an error, open an event stream.
//
// These build their lists of names and values in plain functions, not in coroutines: GCC 12 refuses an
// initializer list in an expression that waits ("array used as initializer").
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "base/json.h"
#include "downloads/cancellation.h"
#include "http/routes.h"

namespace gezel::http {

// The body as a JSON object. Errors: the codes of parse_json, and invalid_body for JSON of another kind.
api::ApiResult<json::object> required_object(const Call& call);
// The same, where no body at all stands for an empty object.
api::ApiResult<json::object> optional_object(const Call& call);
// The decoded value of `name` in the query, which must be there and not be empty; invalid_body otherwise.
api::ApiResult<std::string> required_query(const Call& call, std::string_view name);

// 200 with the value, or the error in the route's form.
asio::awaitable<void> reply_result(Call& call, const api::ApiResult<json::value>& result);

// Ends a question to the network when the client goes away: a host may be slow, and nobody waits for it in
// the name of a client that is gone.
class GiveUpWithClient {
 public:
  explicit GiveUpWithClient(Call& call);
  GiveUpWithClient(const GiveUpWithClient&) = delete;
  GiveUpWithClient& operator=(const GiveUpWithClient&) = delete;
  ~GiveUpWithClient();
  const std::shared_ptr<downloads::Cancellation>& cancelled() const { return cancelled_; }

 private:
  api::Response& response_;
  std::shared_ptr<downloads::Cancellation> cancelled_ = std::make_shared<downloads::Cancellation>();
};

// The head of a stream of server-sent events: nobody on the way may keep or collect them.
api::Headers event_stream_headers();

}  // namespace gezel::http
