#include "http/router.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <exception>

#include "base/log.h"
#include "http/routes.h"
#include "http/wire.h"

namespace gezel::http {
namespace {

constexpr std::size_t kMaxRequestId = 128;
constexpr std::size_t kLoggedDetail = 2000;
constexpr std::array<std::string_view, 4> kLoopbackHosts{"127.0.0.1", "localhost", "::1", "[::1]"};

bool is_digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// Whether the one Host header names this machine's loopback, with or without a port.
bool is_loopback_host(const api::Headers& headers) {
  if (std::ranges::count(headers, "host", &std::pair<std::string, std::string>::first) != 1) return false;
  std::string host = lower_case(*api::find_header(headers, "host"));
  const auto colon = host.rfind(':');
  if (colon != std::string::npos && is_digits(std::string_view(host).substr(colon + 1)) && host != "::1") {
    host.resize(colon);
  }
  return std::ranges::find(kLoopbackHosts, host) != kLoopbackHosts.end();
}

bool is_visible_ascii(std::string_view text) {
  return std::ranges::all_of(text, [](unsigned char c) { return c > 0x20 && c < 0x7F; });
}

bool has_cors(std::string_view path) {
  return path.starts_with("/v1/") && !path.starts_with("/v1/apps");
}

void add_cors(const api::Request& head, api::Headers& headers) {
  const auto origin = api::find_header(head.headers, "origin");
  if (!origin) return;
  headers.emplace_back("access-control-allow-origin", *origin);
  headers.emplace_back("vary", "Origin");
  headers.emplace_back("access-control-allow-credentials", "true");
  headers.emplace_back("access-control-expose-headers", "x-request-id, retry-after");
}

Reply preflight(const api::Request& head, api::Headers headers) {
  headers.emplace_back("access-control-allow-methods", "GET, POST, DELETE, OPTIONS");
  headers.emplace_back("access-control-allow-headers",
                       api::find_header(head.headers, "access-control-request-headers")
                           .value_or("Authorization, Content-Type, Accept"));
  headers.emplace_back("access-control-max-age", "86400");
  if (api::find_header(head.headers, "access-control-request-private-network") == "true") {
    headers.emplace_back("access-control-allow-private-network", "true");
  }
  return {204, std::move(headers), ""};
}

Reply make_error(const api::ApiError& error, ErrorForm form, const std::string& request_id,
                 api::Headers headers) {
  std::ranges::move(api::error_headers(error), std::back_inserter(headers));
  std::string body =
      form == ErrorForm::flat ? api::flat_error_body(error, request_id) : api::error_body(error, request_id);
  return {error.status, std::move(headers), std::move(body)};
}

// The token of "Authorization: Bearer <token>", else of x-api-key or api-key; "" = none.
std::string_view bearer_token(const api::Headers& headers) {
  if (const auto value = api::find_header(headers, "authorization")) {
    const auto space = value->find(' ');
    if (space != std::string_view::npos && lower_case(value->substr(0, space)) == "bearer") {
      const auto first = value->find_first_not_of(' ', space);
      if (first != std::string_view::npos) return value->substr(first);
    }
  }
  for (const std::string_view name : {"x-api-key", "api-key"}) {
    if (const auto value = api::find_header(headers, name)) return *value;
  }
  return {};
}

// Adds the common headers to whatever the handler answers.
class DecoratedResponse final : public api::Response {
 public:
  DecoratedResponse(api::Response& inner, const api::Headers& common) : inner_(inner), common_(common) {}
  asio::awaitable<bool> send(int status, api::Headers headers, std::string body) override {
    return inner_.send(status, with_common(std::move(headers)), std::move(body));
  }
  asio::awaitable<bool> start_stream(int status, api::Headers headers) override {
    return inner_.start_stream(status, with_common(std::move(headers)));
  }
  asio::awaitable<bool> write(std::string chunk) override { return inner_.write(std::move(chunk)); }
  asio::awaitable<void> end_stream() override { return inner_.end_stream(); }
  bool started() const override { return inner_.started(); }
  void on_cancel(std::function<void(api::CancelReason)> on_cancel) override {
    inner_.on_cancel(std::move(on_cancel));
  }

 private:
  api::Headers with_common(api::Headers headers) const {
    headers.insert(headers.begin(), common_.begin(), common_.end());
    return headers;
  }
  api::Response& inner_;
  const api::Headers& common_;
};

// The text of what was thrown, for the log.
std::string describe(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an exception of unknown type";
  }
}

}  // namespace

api::Headers Router::security_headers(const std::string& request_id) const {
  return {{"x-request-id", request_id},
          {"x-content-type-options", "nosniff"},
          {"referrer-policy", "no-referrer"},
          {"x-frame-options", "DENY"},
          {"x-dns-prefetch-control", "off"},
          {"content-security-policy", "default-src 'none'; frame-ancestors 'none'"}};
}

Reply Router::connection_error(const api::ApiError& error) {
  const std::string request_id = new_uuid(services_.entropy);
  return make_error(error, ErrorForm::envelope, request_id, security_headers(request_id));
}

std::optional<service::Credential> Router::authenticate(const api::Request& head) {
  // The host process owns everything here already (spec 10 section 16.1).
  if (head.in_process) return service::Credential{"in-process", "in-process", {"root"}};
  const std::string_view token = bearer_token(head.headers);
  if (!token.empty()) {
    if (auto found = services_.credentials.authenticate(token)) return found;
  }
  // Without authentication whoever reaches the port may ask a model. Management stays closed: a web page
  // could reach it too.
  if (services_.no_auth) return service::Credential{"anonymous", "anonymous", {"openai"}};
  return std::nullopt;
}

Admission Router::admit(const api::Request& head) {
  Admission admission;
  const auto sent_id = api::find_header(head.headers, "x-request-id").value_or("");
  const bool usable = !sent_id.empty() && sent_id.size() <= kMaxRequestId && is_visible_ascii(sent_id);
  admission.request_id = usable ? std::string(sent_id) : new_uuid(services_.entropy);
  admission.common_headers = security_headers(admission.request_id);

  const std::string_view path = split_target(head.target).path;
  const auto refuse = [&](const api::ApiError& error, ErrorForm form) {
    admission.refusal = make_error(error, form, admission.request_id, admission.common_headers);
    return std::move(admission);
  };

  if (!head.in_process && !is_loopback_host(head.headers)) {
    api::ApiError error;
    error.status = 403;
    error.code = "forbidden_host";
    return refuse(error, ErrorForm::flat);
  }
  if (has_cors(path)) {
    add_cors(head, admission.common_headers);
    if (head.method == "OPTIONS") {
      admission.refusal = preflight(head, admission.common_headers);
      return admission;
    }
  }

  const RouteMatch match = find_route(head.method, path);
  const ErrorForm form = match.route != nullptr ? match.route->errors : error_form(path);
  const bool open = match.route != nullptr && match.route->scope.empty();
  if (stopping_ && !open) return refuse(api::shutting_down(), form);
  const bool guarded = path.starts_with("/v1/") || path.starts_with("/api/");
  if (guarded && !open) {
    auto caller = authenticate(head);
    if (!caller) return refuse(api::unauthorized(), form);
    admission.caller = std::move(*caller);
  }
  if (match.route == nullptr) {
    if (match.allow.empty()) {
      return refuse(
          api::not_found("not_found", "there is no such route; the routes begin with /v1/ and /api/"), form);
    }
    api::ApiError error = api::invalid_request(
        "method_not_allowed", "this route does not take " + head.method + "; it takes " + match.allow);
    error.status = 405;
    admission.common_headers.emplace_back("allow", match.allow);
    return refuse(error, form);
  }
  if (!open && !admission.caller.allows(match.route->scope))
    return refuse(api::missing_scope(match.route->scope), form);

  admission.route = match.route;
  admission.body_limit = match.route->body_limit;
  admission.path_tail = percent_decode(match.tail).value_or(std::string(match.tail));
  if (const auto length = api::find_header(head.headers, "content-length")) {
    std::uint64_t bytes = 0;
    const auto [end, failed] = std::from_chars(length->data(), length->data() + length->size(), bytes);
    if (failed == std::errc::result_out_of_range || bytes > admission.body_limit) {
      return refuse(api::request_too_large(admission.body_limit), form);
    }
  }
  return admission;
}

asio::awaitable<void> Router::run(Admission admission, api::Request request, api::Response& response) {
  if (admission.refusal) {
    Reply& reply = *admission.refusal;
    co_await response.send(reply.status, std::move(reply.headers), std::move(reply.body));
    co_return;
  }
  DecoratedResponse decorated(response, admission.common_headers);
  // Last of all, when everything that was made of the body is gone too.
  struct Relief {
    HeapRelief* heap;
    std::uint64_t bytes;
    ~Relief() {
      if (heap != nullptr) heap->freed(bytes);
    }
  } const relief{services_.heap, request.body.size()};
  Call call{services_,
            *admission.route,
            std::move(request),
            decorated,
            std::move(admission.caller),
            admission.request_id,
            std::move(admission.path_tail),
            stopping_};
  std::exception_ptr thrown;
  try {
    co_await admission.route->handler(call);
  } catch (...) {
    thrown = std::current_exception();
  }
  if (thrown) co_await call.fail(api::internal_error(describe(thrown)));
}

asio::awaitable<void> Router::handle(api::Request request, api::Response& response) {
  Admission admission = admit(request);
  if (!admission.refusal && request.body.size() > admission.body_limit) {
    admission.refusal = make_error(api::request_too_large(admission.body_limit), admission.route->errors,
                                   admission.request_id, admission.common_headers);
  }
  co_await run(std::move(admission), std::move(request), response);
}

asio::awaitable<void> Call::reply(int status, std::string json_body, api::Headers headers) {
  headers.emplace_back("content-type", "application/json");
  co_await response.send(status, std::move(headers), std::move(json_body));
}

void Call::log_failure(const api::ApiError& error) const {
  if (error.status < 500) return;
  log_warn("request failed",
           {{"request_id", request_id},
            {"path", std::string(route.path)},
            {"status", std::to_string(error.status)},
            {"code", error.code},
            {"detail", (error.detail.empty() ? error.message : error.detail).substr(0, kLoggedDetail)}});
}

asio::awaitable<void> Call::fail(const api::ApiError& error) {
  log_failure(error);
  if (response.started()) {
    // The status line is gone: the stream itself has to say it (spec 10 section 6.6).
    co_await response.write(api::chat_stream_error(error, request_id) + std::string(api::kSseDone));
    co_await response.end_stream();
    co_return;
  }
  Reply answer = make_error(error, route.errors, request_id, {});
  co_await response.send(answer.status, std::move(answer.headers), std::move(answer.body));
}

}  // namespace gezel::http
