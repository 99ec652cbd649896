#include "cli/daemon_client.h"

#include <fmt/format.h>

#include <fstream>
#include <thread>

#include "base/files.h"
#include "cli/printer.h"

namespace gezel::cli {
namespace {

constexpr Millis kStartLimit{
    15'000};  // it answers within a tenth of a second; a cold disk or a busy machine may not
constexpr Millis kPoll{20};
constexpr Millis kGraceAfterExit{2'000};
constexpr std::size_t kLogTail = 2'000;

ErrorKind kind_of_status(int status) {
  switch (status) {
    case 401:
    case 403:
      return ErrorKind::denied;
    case 404:
      return ErrorKind::not_found;
    case 409:
      return ErrorKind::conflict;
    case 413:
      return ErrorKind::too_large;
    case 429:
    case 503:
      return ErrorKind::unavailable;
    case 504:
      return ErrorKind::timeout;
    default:
      return status >= 500 ? ErrorKind::internal : ErrorKind::invalid;
  }
}

// What the daemon wrote into its log since `from`, at most its last few lines.
std::string log_tail(const fs::path& path, Bytes from) {
  std::ifstream file(path, std::ios::binary);
  file.seekg(static_cast<std::streamoff>(from));
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (text.size() > kLogTail) text.erase(0, text.size() - kLogTail);
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

Result<service::DaemonAddress> start_daemon(const Environment& env) {
  const fs::path log = env.home / "logs" / "daemon.log";
  GEZEL_CHECK(make_private_folder(log.parent_path()));
  std::error_code ignored;
  const auto size = fs::file_size(log, ignored);
  const Bytes log_start = ignored ? 0 : size;

  SpawnOptions options{.program = env.executable,
                       .args = {"serve", "--home", env.home.string()},
                       .env_drop = {"GEZEL_SHUTDOWN_ON_STDIN_EOF"},  // its input is empty
                       .cwd = env.home,
                       .die_with_parent = false,
                       .new_session = true,
                       .output_file = log};
  if (!env.engine.empty()) options.args.insert(options.args.end(), {"--engine", env.engine.string()});
  if (!env.port.empty()) options.args.insert(options.args.end(), {"--port", env.port});
  GEZEL_TRY(const Child child, spawn(options));

  // A daemon that another command started at the same moment is as good: ours then ends because of the lock.
  const MonotonicTime begin = env.clock->now();
  std::optional<MonotonicTime> exited;
  std::string how;
  while (env.clock->now() - begin < kStartLimit) {
    if (Interrupt::raised()) {
      return fail(ErrorKind::cancelled, std::string(kCodeInterrupted), "interrupted");
    }
    if (auto address = service::find_daemon(env.home)) {
      const auto reply = HttpClient(address->port, address->token).send({.target = "/health"});
      if (reply && reply->status == 200) return *address;
    }
    if (!exited) {
      if (const auto status = try_wait(child.pid)) {
        exited = env.clock->now();
        how = describe(*status);
      }
    } else if (env.clock->now() - *exited > kGraceAfterExit) {
      const std::string tail = log_tail(log, log_start);
      return fail(ErrorKind::unavailable, "daemon_start_failed",
                  fmt::format("The daemon ended at once ({}). {}{}", how,
                              tail.empty() ? "Its log is empty" : "It said:\n" + tail,
                              fmt::format("\nLog: {}", log.string())));
    }
    std::this_thread::sleep_for(kPoll);
  }
  return fail(ErrorKind::timeout, "daemon_start_failed",
              fmt::format("The daemon (pid {}) did not answer within {} s; its log is {}", child.pid,
                          kStartLimit.count() / 1000, log.string()));
}

}  // namespace

Error error_of_object(const json::object& body, int status) {
  Error error{.kind = kind_of_status(status), .code = "", .message = "", .param = ""};
  if (const json::object* inner = object_at(body, "error")) {
    error.code = string_or(*inner, "code");
    error.message = string_or(*inner, "message");
    error.param = string_or(*inner, "param");
  } else {
    error.code = string_or(body, "error");
    error.message = string_or(body, "message");
  }
  if (error.code.empty()) error.code = "bad_reply";
  if (error.message.empty())
    error.message = fmt::format("The daemon answered with status {}: {}", status, error.code);
  return error;
}

Error error_of_reply(const HttpReply& reply) {
  if (const auto value = parse_json(reply.body); value && value->is_object()) {
    return error_of_object(value->get_object(), reply.status);
  }
  return {kind_of_status(reply.status), std::string(kCodeBadReply),
          fmt::format("The daemon answered with status {} and no explanation; its log is in <home>/logs",
                      reply.status),
          ""};
}

DaemonClient::DaemonClient(service::DaemonAddress address)
    : address_(std::move(address)), http_(address_.port, address_.token) {}

Result<DaemonClient> DaemonClient::connect(const Environment& env) {
  auto address = service::find_daemon(env.home);
  if (!address && address.error().code == kCodeUnreachable) {
    return fail(ErrorKind::unavailable, std::string(kCodeUnreachable),
                fmt::format("No daemon runs for {}", env.home.string()));
  }
  if (!address) return std::unexpected(std::move(address).error());
  return DaemonClient(std::move(*address));
}

Result<DaemonClient> DaemonClient::connect_or_start(const Environment& env) {
  auto found = service::find_daemon(env.home);
  // Where we may not know whether one runs, another could only fail.
  if (!found && found.error().code != kCodeUnreachable) return std::unexpected(std::move(found).error());
  if (found) {
    DaemonClient client(std::move(*found));
    // Runtime files of a daemon that was killed may still lie there.
    const auto reply = client.http_.send({.target = "/health", .silence = Millis(10'000)});
    if (reply || reply.error().code != kCodeUnreachable) {
      if (!reply) return std::unexpected(reply.error());
      return client;
    }
  }
  auto address = start_daemon(env);
  if (!address) return std::unexpected(std::move(address).error());
  print_note(env,
             fmt::format(
                 "started the daemon in the background on http://127.0.0.1:{} (pid {}); `gezel stop` ends it",
                 address->port, address->pid));
  return DaemonClient(std::move(*address));
}

Result<json::value> DaemonClient::ask(const HttpRequest& request, const StreamHooks& hooks) const {
  GEZEL_TRY(const HttpReply reply, http_.send(request, hooks));
  if (reply.status >= 400) return std::unexpected(error_of_reply(reply));
  if (reply.body.empty()) return json::value();
  auto value = parse_json(reply.body);
  if (!value) {
    return fail(ErrorKind::corrupt, std::string(kCodeBadReply),
                fmt::format("The daemon's reply to {} {} is not JSON ({}); is another program on port {}?",
                            request.method, request.target, value.error().message, address_.port));
  }
  return std::move(*value);
}

Result<json::value> DaemonClient::get(const std::string& target, Millis silence,
                                      const std::function<void(Millis)>& on_wait) const {
  return ask({.target = target, .silence = silence}, {{}, on_wait});
}

Result<json::value> DaemonClient::post(const std::string& target, const json::object& body, Millis silence,
                                       const std::function<void(Millis)>& on_wait) const {
  return ask({.method = "POST", .target = target, .body = to_json(body), .silence = silence}, {{}, on_wait});
}

Result<json::value> DaemonClient::stream(const std::string& target, const json::object& body,
                                         const StreamHooks& hooks, Millis silence) const {
  return ask({.method = "POST", .target = target, .body = to_json(body), .silence = silence}, hooks);
}

Result<json::value> DaemonClient::watch(const std::string& target, const StreamHooks& hooks,
                                        Millis silence) const {
  return ask({.target = target, .silence = silence}, hooks);
}

Result<json::value> DaemonClient::remove(const std::string& target, Millis silence) const {
  return ask({.method = "DELETE", .target = target, .silence = silence}, {});
}

}  // namespace gezel::cli
