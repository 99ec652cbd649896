// Handlers of installs, deletions and discovery.
#include <fmt/format.h>

#include "api/field_reader.h"
#include "base/json.h"
#include "http/replies.h"
#include "http/routes.h"
#include "http/wire.h"

namespace gezel::http {
namespace {

constexpr Millis kPing{1'000};
constexpr std::string_view kPingFrame = "event: ping\ndata:\n\n";
constexpr std::string_view kEventsEnd = "/events";
constexpr std::string_view kInstallEnd = "/install";

// Spec 60 section 9.4: absent, empty, "0" and "false" are off, anything else is on.
bool query_flag(const Call& call, std::string_view name) {
  const auto value = query_value(split_target(call.request.target).query, name);
  return value && !value->empty() && *value != "0" && *value != "false";
}

// What stands before `end`; nothing when the path does not end so.
std::optional<std::string> tail_before(const Call& call, std::string_view end) {
  if (!call.path_tail.ends_with(end)) return std::nullopt;
  return call.path_tail.substr(0, call.path_tail.size() - end.size());
}

api::ApiError no_such_route(const Call& call) {
  return api::not_found("not_found",
                        fmt::format("there is no route {} for {}; the routes of a model are "
                                    "/api/llama-cpp/models/<id> and /api/llama-cpp/models/<id>/install",
                                    split_target(call.request.target).path, call.request.method));
}

// Everything so far, then what comes, until the install ends. A client that goes away ends the watching only.
asio::awaitable<void> stream_events(Call& call, const std::string& job_id) {
  const auto watched = call.services.inference.installs().watch(job_id);
  if (!watched) {
    co_await call.fail(watched.error());
    co_return;
  }
  const auto events = *watched;
  const auto over = std::make_shared<bool>(false);
  struct Guard {
    api::Response& response;
    ~Guard() { response.on_cancel({}); }
  } const guard{call.response};
  call.response.on_cancel([events, over](api::CancelReason) {
    *over = true;
    events->wake();
  });
  if (!co_await call.response.start_stream(200, event_stream_headers())) co_return;
  const bool only_head = call.request.method == "HEAD";
  while (!*over && !only_head) {
    const auto news = co_await events->next(kPing);
    std::string frames;
    for (const auto& event : news) frames += fmt::format("data: {}\n\n", event);
    if (frames.empty() && !events->ended() && !*over) frames = kPingFrame;
    if (!frames.empty() && !co_await call.response.write(std::move(frames))) co_return;
    if (events->ended()) break;
  }
  co_await call.response.end_stream();
}

// Absent and null are none.
std::vector<std::string> texts_of(const api::FieldReader& fields, std::string_view key) {
  std::vector<std::string> out;
  const auto* array = fields.array(key);
  for (std::size_t i = 0; array != nullptr && i < array->size(); ++i) {
    if (const auto* text = (*array)[i].if_string()) {
      out.emplace_back(*text);
    } else {
      fields.problems().add(fields.path_of(key, i),
                            fmt::format("must be a string, not {}", api::kind_name((*array)[i])));
    }
  }
  return out;
}

}  // namespace

asio::awaitable<void> ensure_model(Call& call) {
  const auto body = required_object(call);
  if (!body) {
    co_await call.fail(body.error());
    co_return;
  }
  api::Problems problems;
  const api::FieldReader fields(*body, "", problems);
  const GiveUpWithClient giving_up(call);
  service::EnsureRequest request{.model = std::string(fields.string("model").value_or("")),
                                 .allow_network_names = call.caller.allows("ui"),
                                 .id = std::string(fields.string("id").value_or("")),
                                 .sha256 = std::string(fields.string("sha256").value_or("")),
                                 .mirrors = texts_of(fields, "mirrors"),
                                 .cancelled = giving_up.cancelled()};
  if (!problems.empty()) {
    co_await call.fail(problems.to_error());
    co_return;
  }
  const auto ensured = co_await call.services.inference.installs().ensure(std::move(request));
  if (!ensured) {
    co_await call.fail(ensured.error());
    co_return;
  }
  const bool ready = ensured->job_id.empty();
  json::object reply{{"status", ready ? "ready" : "downloading"}, {"model_id", ensured->model_id}};
  if (!ready) reply["job_id"] = ensured->job_id;
  co_await call.reply(ready ? 200 : 202, to_json(reply));
}

asio::awaitable<void> ensure_job(Call& call) {
  if (const auto job = tail_before(call, kEventsEnd)) {
    co_await stream_events(call, *job);
  } else {
    co_await reply_result(call, call.services.inference.installs().job(call.path_tail));
  }
}

asio::awaitable<void> installed_models(Call& call) {
  co_await call.reply(200, to_json(co_await call.services.inference.installs().installed()));
}

asio::awaitable<void> incomplete_models(Call& call) {
  co_await call.reply(200, to_json(co_await call.services.inference.installs().incomplete()));
}

asio::awaitable<void> active_installs(Call& call) {
  co_await call.reply(200, to_json(call.services.inference.installs().active()));
}

asio::awaitable<void> install_model(Call& call) {
  auto id = tail_before(call, kInstallEnd);
  if (!id) {
    co_await call.fail(no_such_route(call));
    co_return;
  }
  const auto started = co_await call.services.inference.installs().install(
      {.id = std::move(*id),
       .skip_sha = query_flag(call, "skipSha"),
       .include_projector = query_flag(call, "includeMmproj"),
       .own_copy = query_flag(call, "copy")});
  if (!started) {
    co_await call.fail(started.error());
  } else {
    co_await stream_events(call, started->job_id);
  }
}

asio::awaitable<void> delete_model(Call& call) {
  if (const auto id = tail_before(call, kInstallEnd)) {
    co_await call.reply(200, to_json(call.services.inference.installs().cancel(*id)));
  } else {
    co_await reply_result(
        call, co_await call.services.inference.installs().remove(call.path_tail, query_flag(call, "force")));
  }
}

asio::awaitable<void> discovered_models(Call& call) {
  const auto source = query_value(split_target(call.request.target).query, "source");
  co_await call.reply(200,
                      to_json(co_await call.services.inference.installs().discovered(source.value_or(""))));
}

}  // namespace gezel::http
