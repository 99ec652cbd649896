// api/error.h
//
// Errors on the wire (spec 10 section 3): the OpenAI envelope, its status and headers.
#pragma once
#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine.h"

namespace gezel::api {

struct ApiError {
  int status = 500;
  std::string type = "server_error";  // invalid_request_error | permission_error | rate_limit_error | server_error
  std::string code = "internal_error";
  std::string message;
  std::string param;                  // "" = null
  std::optional<int> retry_after_s;
  bool should_not_retry = false;      // header x-should-retry: false
  // Extra members of the error object, for example n_prompt_tokens and n_ctx of context_length_exceeded.
  std::vector<std::pair<std::string, std::int64_t>> numbers;
  std::string incident_id;
};
template <class T = void>
using ApiResult = std::expected<T, ApiError>;

ApiError invalid_request(std::string code, std::string message, std::string param = {});
ApiError not_found(std::string code, std::string message, std::string param = {});
// Translates by kind and code, never by matching text. 5xx messages of unknown origin are replaced by our own sentence.
ApiError from_engine(const engine::EngineError& error);
ApiError from_error(const Error& error);

// {"error":{"message","type","code","param",...}} and, for 5xx, top-level "request_id".
std::string error_body(const ApiError& error, std::string_view request_id);
// Headers that belong to the error: content-type, retry-after, x-should-retry, www-authenticate.
std::vector<std::pair<std::string, std::string>> error_headers(const ApiError& error);

}  // namespace gezel::api
