// api/error.h
//
// Errors on the wire (spec 10 section 3): the OpenAI envelope, the flat form of management routes, status and
// headers.
#pragma once
#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"

namespace gezel::api {

struct ApiError {
  int status = 500;
  std::string type =
      "server_error";  // invalid_request_error | permission_error | rate_limit_error | server_error
  std::string code = "internal_error";
  std::string message;
  std::string param;  // "" = null
  std::optional<int> retry_after_s;
  bool should_not_retry = false;  // header x-should-retry: false
  // Extra members of the error object, for example n_prompt_tokens and n_ctx of context_length_exceeded.
  std::vector<std::pair<std::string, std::int64_t>> numbers;
  std::string binding;  // with numbers of a window: what stands in the way of a longer one; "": not sent
  std::string incident_id;
  std::string detail;  // for the log only: what the message leaves out (paths, engine output)
};
template <class T = void>
using ApiResult = std::expected<T, ApiError>;

ApiError invalid_request(std::string code, std::string message, std::string param = {});
ApiError not_found(std::string code, std::string message, std::string param = {});
ApiError unauthorized();                                // 401 invalid_api_key
ApiError missing_scope(std::string_view scope);         // 403 missing_scope:<scope>
ApiError request_too_large(std::uint64_t limit_bytes);  // 413
ApiError shutting_down();                               // 503
// 503: as much of it as there may be is under way already.
ApiError too_many(std::string code, std::string message, int retry_after_s);
ApiError internal_error(std::string detail);  // 500; `detail` goes to the log only

// How a code of ours is spelled for callers, on the wire and by the command line: "model-invalid" inside is
// "model_invalid" outside.
std::string wire_code(std::string_view code);

// Translates by kind and code, never by matching text. A 5xx message of a kind that may carry engine output
// or paths is replaced by our own sentence; the original stays in `detail`.
ApiError from_engine(const engine::EngineError& error);
ApiError from_error(const Error& error);

// {"error":{"message","type","code","param",...}} and, for 5xx, top-level "request_id".
std::string error_body(const ApiError& error, std::string_view request_id);
// {"error":"<code>","message":...} of management routes; for 5xx also "requestId".
std::string flat_error_body(const ApiError& error, std::string_view request_id);
// Headers that belong to the error: content-type, retry-after, x-should-retry, www-authenticate.
std::vector<std::pair<std::string, std::string>> error_headers(const ApiError& error);

}  // namespace gezel::api
