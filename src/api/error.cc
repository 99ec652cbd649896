#include "api/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "api/json_text.h"
#include "base/public_text.h"

namespace gezel::api {
namespace {

// Sentences for engine errors whose own message may hold paths, command lines or engine output (spec 10
// section 3.3). Kinds that are absent keep their message: it is written by us and made of numbers, ids and
// remedies.
struct OwnSentence {
  std::string_view code;
  std::string_view text;
};
constexpr std::array kOwnSentences{
    OwnSentence{
        "engine-launch",
        "the engine program could not be started; `gezel doctor` and the service log have the details"},
    OwnSentence{
        "engine-startup-timeout",
        "the engine did not become ready in time; try again, or see the service log for its last phase"},
    OwnSentence{"engine-startup-fatal",
                "the engine could not load this model; `gezel doctor` and the service log have the cause"},
    OwnSentence{
        "engine-internal",
        "the engine failed in an unexpected way; the service log has the details under the request id"},
};
constexpr std::string_view kUnexpected =
    "an unexpected error happened; the service log has the details under the request id";

std::string type_for(int status) {
  if (status == 429) return "rate_limit_error";
  if (status == 403) return "permission_error";
  return status >= 400 && status < 500 ? "invalid_request_error" : "server_error";
}

int status_for(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::invalid:
      return 400;
    case ErrorKind::denied:
      return 403;
    case ErrorKind::not_found:
      return 404;
    case ErrorKind::conflict:
      return 409;
    case ErrorKind::too_large:
      return 413;
    case ErrorKind::unavailable:
      return 503;
    case ErrorKind::timeout:
      return 504;
    case ErrorKind::cancelled:
      return 499;
    case ErrorKind::corrupt:
      return 400;  // what the caller pointed at is damaged
    case ErrorKind::io:
      return 500;
    case ErrorKind::internal:
      return 500;
  }
  return 500;
}

}  // namespace

std::string wire_code(std::string_view code) {
  if (code == "context-overflow") return "context_length_exceeded";
  // The routes of models have this one from an earlier API (spec 60 section 19).
  if (code == "invalid-model-id" || code == "read-only-model") return std::string(code);
  std::string text(code.empty() ? std::string_view("internal_error") : code);
  std::ranges::replace(text, '-', '_');
  return text;
}

ApiError invalid_request(std::string code, std::string message, std::string param) {
  ApiError error;
  error.status = 400;
  error.type = "invalid_request_error";
  error.code = std::move(code);
  error.message = std::move(message);
  error.param = std::move(param);
  return error;
}

ApiError not_found(std::string code, std::string message, std::string param) {
  ApiError error = invalid_request(std::move(code), std::move(message), std::move(param));
  error.status = 404;
  return error;
}

ApiError unauthorized() {
  ApiError error = invalid_request("invalid_api_key",
                                   "the API key is missing or unknown; send the header 'Authorization: "
                                   "Bearer <key>' (`gezel key` prints the key)");
  error.status = 401;
  return error;
}

ApiError missing_scope(std::string_view scope) {
  ApiError error = invalid_request(fmt::format("missing_scope:{}", scope),
                                   fmt::format("this key lacks the scope '{}' that the route needs", scope));
  error.status = 403;
  error.type = "permission_error";
  return error;
}

ApiError request_too_large(std::uint64_t limit_bytes) {
  ApiError error = invalid_request(
      "request_too_large",
      fmt::format("the request body is larger than this route's limit of {} bytes; send less", limit_bytes));
  error.status = 413;
  return error;
}

ApiError shutting_down() {
  ApiError error;
  error.status = 503;
  error.code = "shutting_down";
  error.message = "the service is stopping; start it again (`gezel serve`) and repeat the request";
  return error;
}

ApiError too_many(std::string code, std::string message, int retry_after_s) {
  ApiError error;
  error.status = 503;
  error.code = std::move(code);
  error.message = std::move(message);
  error.retry_after_s = retry_after_s;
  return error;
}

ApiError internal_error(std::string detail) {
  ApiError error;
  error.message = kUnexpected;
  error.detail = std::move(detail);
  return error;
}

ApiError from_engine(const engine::EngineError& error) {
  ApiError result;
  const bool known_status = error.http_hint >= 400 && error.http_hint <= 599;
  result.status = known_status ? error.http_hint : 500;
  result.code = wire_code(error.error.code);
  result.type = type_for(result.status);
  result.message = error.error.message;
  result.param = error.error.param;
  result.incident_id = error.incident_id;
  if (result.status >= 500) {
    result.detail = error.error.message;
    const auto* own = std::ranges::find(kOwnSentences, error.error.code, &OwnSentence::code);
    if (own != kOwnSentences.end()) {
      result.message = own->text;
    } else if (error.error.code.empty() || result.message.empty()) {
      result.message = kUnexpected;
    } else {
      result.message = without_folders(result.message);
    }
  }
  if (error.error.code == "context-overflow") {
    result.param = result.param.empty() ? "messages" : result.param;
    result.numbers = {{"n_prompt_tokens", error.prompt_tokens}, {"n_ctx", error.context_tokens}};
  }
  if (const auto& window = error.window) {
    if (error.error.code != "context-overflow") result.numbers.emplace_back("n_ctx", window->granted);
    result.numbers.emplace_back("n_ctx_needed", window->needed);
    result.numbers.emplace_back("n_ctx_native", window->native);
    result.numbers.emplace_back("n_ctx_limit", window->limit);
    result.numbers.emplace_back("n_ctx_largest", window->largest);
    result.binding = window->binding;
  }
  if (error.characters_delivered > 0)
    result.numbers.emplace_back("characters_delivered", error.characters_delivered);
  switch (error.retry) {
    case engine::Retry::never:
      result.should_not_retry = true;
      break;
    case engine::Retry::after:
      result.retry_after_s =
          static_cast<int>(std::clamp<std::int64_t>((error.retry_after_ms + 999) / 1000, 1, 86'400));
      break;
    case engine::Retry::same_engine:
    case engine::Retry::other_engine:
      break;
  }
  return result;
}

ApiError from_error(const Error& error) {
  ApiError result;
  result.status = status_for(error.kind);
  result.code = wire_code(error.code);
  result.type = type_for(result.status);
  result.message = error.message;
  result.param = error.param;
  // Where the kind says "ours", the text may name paths and system calls.
  if (error.kind == ErrorKind::io || error.kind == ErrorKind::internal) {
    result.detail = error.message;
    result.message = kUnexpected;
  } else if (result.status >= 500) {
    result.detail = error.message;
    result.message = without_folders(error.message);
  }
  return result;
}

std::string error_body(const ApiError& error, std::string_view request_id) {
  std::string body = R"({"error":{"message":)";
  append_json_string(body, error.message);
  body += R"(,"type":)";
  append_json_string(body, error.type);
  body += R"(,"code":)";
  append_json_string(body, error.code);
  body += R"(,"param":)";
  if (error.param.empty()) {
    body += "null";
  } else {
    append_json_string(body, error.param);
  }
  for (const auto& [name, number] : error.numbers) {
    body += ',';
    append_json_string(body, name);
    fmt::format_to(std::back_inserter(body), ":{}", number);
  }
  if (!error.binding.empty()) {
    body += R"(,"binding":)";
    append_json_string(body, error.binding);
  }
  if (!error.incident_id.empty()) {
    body += R"(,"incident_id":)";
    append_json_string(body, error.incident_id);
  }
  body += '}';
  if (error.status >= 500 && !request_id.empty()) {
    body += R"(,"request_id":)";
    append_json_string(body, request_id);
  }
  body += '}';
  return body;
}

std::string flat_error_body(const ApiError& error, std::string_view request_id) {
  std::string body = R"({"error":)";
  append_json_string(body, error.code);
  if (!error.message.empty()) {
    body += R"(,"message":)";
    append_json_string(body, error.message);
  }
  if (!error.param.empty()) {
    body += R"(,"param":)";
    append_json_string(body, error.param);
  }
  if (error.status >= 500 && !request_id.empty()) {
    body += R"(,"requestId":)";
    append_json_string(body, request_id);
  }
  body += '}';
  return body;
}

std::vector<std::pair<std::string, std::string>> error_headers(const ApiError& error) {
  std::vector<std::pair<std::string, std::string>> headers{{"content-type", "application/json"}};
  if (error.status == 401) headers.emplace_back("www-authenticate", "Bearer");
  if (error.retry_after_s) headers.emplace_back("retry-after", std::to_string(*error.retry_after_s));
  if (error.should_not_retry) headers.emplace_back("x-should-retry", "false");
  return headers;
}

}  // namespace gezel::api
