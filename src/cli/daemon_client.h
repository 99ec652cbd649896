// cli/daemon_client.h
//
// The running daemon as the command line sees it: found through <home>/runtime, started when a command needs
// one, asked in JSON. Errors of the API come back as ordinary errors with the API's code and message.
#pragma once
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"
#include "cli/environment.h"
#include "cli/http_client.h"
#include "service/runtime_files.h"

namespace gezel::cli {

class DaemonClient {
 public:
  // The daemon of env.home. Errors: `daemon_unreachable` when none runs or none answers, `home_unreadable`.
  static Result<DaemonClient> connect(const Environment& env);
  // The same; when none runs, starts `gezel serve` in the background, says so on standard error and waits
  // until it answers. Errors: `daemon_start_failed` with the end of its log.
  static Result<DaemonClient> connect_or_start(const Environment& env);

  // `silence`: longest wait for the reply, 0 = for ever. `on_wait` as in StreamHooks.
  Result<json::value> get(const std::string& target, Millis silence = Millis(30'000),
                          const std::function<void(Millis)>& on_wait = {}) const;
  Result<json::value> post(const std::string& target, const json::object& body,
                           Millis silence = Millis(60'000),
                           const std::function<void(Millis)>& on_wait = {}) const;
  // A POST answered by events. Another kind of reply is returned as JSON, or as the error it is.
  // A keepalive comment comes every 15 s; eight missing ones mean that nobody is there.
  Result<json::value> stream(const std::string& target, const json::object& body, const StreamHooks& hooks,
                             Millis silence = Millis(120'000)) const;

  // A GET answered by events, and a DELETE.
  Result<json::value> watch(const std::string& target, const StreamHooks& hooks,
                            Millis silence = Millis(120'000)) const;
  Result<json::value> remove(const std::string& target, Millis silence = Millis(60'000)) const;

  const service::DaemonAddress& address() const { return address_; }

 private:
  DaemonClient(service::DaemonAddress address);
  Result<json::value> ask(const HttpRequest& request, const StreamHooks& hooks) const;

  service::DaemonAddress address_;
  HttpClient http_;
};

// The error in a reply of status >= 400: the envelope of the API, its flat form, or a sentence with the
// status.
Error error_of_reply(const HttpReply& reply);
// A streamed {"error":{...}} frame.
Error error_of_object(const json::object& body, int status);

}  // namespace gezel::cli
