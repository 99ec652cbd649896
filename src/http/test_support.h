// http/test_support.h
//
// Fakes for the tests of this module: a service whose answers a test scripts, credentials with known tokens,
// a response that records. Everything runs on one event loop that the test drives.
#pragma once
#include <gtest/gtest.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <deque>
#include <exception>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "http/router.h"

namespace gezel::http::test {

constexpr auto kQuietly = asio::as_tuple(asio::use_awaitable);

// Something a coroutine can wait for, and a test can set off.
class Bell {
 public:
  explicit Bell(const asio::any_io_executor& loop) : timer_(loop) {}
  void ring() { timer_.cancel(); }
  asio::awaitable<void> wait(const std::function<bool()>& until) {
    while (!until()) {
      timer_.expires_at(std::chrono::steady_clock::time_point::max());
      co_await timer_.async_wait(kQuietly);
    }
  }

 private:
  asio::steady_timer timer_;
};

// What the engine does with one request. Events that are not there yet are waited for.
struct Script {
  explicit Script(const asio::any_io_executor& loop) : bell(loop) {}
  void push(engine::Event event) {
    events.push_back(std::move(event));
    bell.ring();
  }
  std::deque<engine::Event> events;
  Bell bell;
  int asked = 0;  // calls of next()
  bool cancelled = false;
  bool destroyed = false;
  bool throws = false;  // next() throws
};

inline engine::EngineError engine_failure(std::string code, int status, std::string message) {
  engine::EngineError error;
  error.error.code = std::move(code);
  error.error.message = std::move(message);
  error.http_hint = status;
  return error;
}

class ScriptedGeneration final : public engine::Generation {
 public:
  explicit ScriptedGeneration(std::shared_ptr<Script> script) : script_(std::move(script)) {}
  ~ScriptedGeneration() override { script_->destroyed = true; }
  asio::awaitable<engine::Event> next() override {
    const auto script = script_;
    ++script->asked;
    if (script->throws) throw std::runtime_error("secret: /home/iris/model.gguf");
    co_await script->bell.wait([&] { return !script->events.empty() || script->cancelled; });
    if (script->cancelled) co_return engine::Failed{engine_failure("cancelled", 499, "cancelled")};
    engine::Event event = std::move(script->events.front());
    script->events.pop_front();
    co_return event;
  }
  void cancel() override {
    script_->cancelled = true;
    script_->bell.ring();
  }

 private:
  std::shared_ptr<Script> script_;
};

// An install that a test writes the events of.
class FakeEvents final : public service::InstallEvents {
 public:
  explicit FakeEvents(const asio::any_io_executor& loop) : bell_(loop) {}
  asio::awaitable<std::vector<std::string>> next(Millis) override {
    ++asked;
    co_await bell_.wait([this] { return !news.empty() || silences > 0 || woken; });
    if (news.empty() && silences > 0) --silences;
    if (!news.empty()) ended_ = last;
    co_return std::exchange(news, {});
  }
  bool ended() const override { return ended_; }
  void wake() override {
    woken = true;
    bell_.ring();
  }
  std::vector<std::string> news;
  int silences = 0, asked = 0;
  bool last = false;  // `news` has the end
  bool woken = false;

 private:
  Bell bell_;
  bool ended_ = false;
};

class FakeInstalls final : public service::Installs {
 public:
  explicit FakeInstalls(const asio::any_io_executor& loop) : events(std::make_shared<FakeEvents>(loop)) {}
  asio::awaitable<api::ApiResult<service::EnsuredModel>> ensure(service::EnsureRequest request) override {
    asked = request.model;
    hub_allowed = request.allow_network_names;
    ensured = request;
    if (on_ensure) on_ensure();
    if (refusal) co_return std::unexpected(*refusal);
    co_return service::EnsuredModel{request.model, job_id};
  }
  asio::awaitable<api::ApiResult<service::EnsuredModel>> install(service::InstallRequest request) override {
    requested = request;
    if (refusal) co_return std::unexpected(*refusal);
    co_return service::EnsuredModel{request.id, job_id};
  }
  api::ApiResult<json::value> job(const std::string& id) override {
    if (id != job_id) return std::unexpected(api::not_found("job_not_found", "no such install"));
    return json::object{{"job_id", id}};
  }
  api::ApiResult<std::shared_ptr<service::InstallEvents>> watch(const std::string& id) override {
    if (id != job_id) return std::unexpected(api::not_found("job_not_found", "no such install"));
    return events;
  }
  json::value cancel(const std::string& id) override { return json::object{{"aborted", id == "running"}}; }
  json::value active() const override { return json::object{{"installs", json::array()}}; }
  asio::awaitable<json::value> installed() override { co_return json::object{{"models", json::array()}}; }
  asio::awaitable<json::value> incomplete() override {
    co_return json::object{{"incomplete", json::array()}};
  }
  asio::awaitable<api::ApiResult<json::value>> remove(std::string id, bool force) override {
    co_return json::object{{"removed", id}, {"force", force}};
  }
  asio::awaitable<json::value> discovered(std::string source) override {
    co_return json::object{{"source", source}};
  }

  std::shared_ptr<FakeEvents> events;
  std::string job_id = "job-1", asked;
  bool hub_allowed = false;
  std::optional<service::EnsureRequest> ensured;
  std::function<void()> on_ensure;
  std::optional<service::InstallRequest> requested;
  std::optional<api::ApiError> refusal;
};

// Takes any upload, and remembers it.
class FakeBundles final : public service::Bundles {
 public:
  class Download final : public service::BundleDownload {
   public:
    explicit Download(std::vector<std::string> pieces) : pieces_(std::move(pieces)) {}
    std::string file_name() const override { return "m.gezmodel"; }
    Bytes total_bytes() const override { return 6; }
    asio::awaitable<api::ApiResult<std::string>> next() override {
      if (at_ == pieces_.size()) co_return std::string();
      if (pieces_[at_] == "broken")
        co_return std::unexpected(api::invalid_request("model_changing", "a file changed"));
      co_return pieces_[at_++];
    }

   private:
    std::vector<std::string> pieces_;
    std::size_t at_ = 0;
  };

  asio::awaitable<api::ApiResult<std::shared_ptr<service::BundleDownload>>> export_model(
      std::string engine, std::string id) override {
    exported = engine + " " + id;
    if (refusal) co_return std::unexpected(*refusal);
    co_return std::make_shared<Download>(pieces);
  }
  asio::awaitable<api::ApiResult<service::BundleScanned>> scan(service::BundleScan request) override {
    scanned = request;
    scanned->upload = nullptr;
    if (refusal) co_return std::unexpected(*refusal);
    while (request.upload != nullptr) {
      const auto piece = co_await request.upload->next();
      if (!piece) co_return std::unexpected(api::from_error(piece.error()));
      if (piece->empty()) break;
      uploaded += *piece;
    }
    co_return service::BundleScanned{!request.respond_async, json::object{{"importId", request.import_id}}};
  }
  api::ApiResult<json::value> progress(const std::string& id) override {
    return json::object{{"importId", id}};
  }
  asio::awaitable<api::ApiResult<json::value>> confirm(std::string id, bool replace) override {
    co_return json::object{{"importId", id}, {"replace", replace}};
  }
  asio::awaitable<api::ApiResult<json::value>> discard(std::string id) override {
    co_return json::object{{"discarded", id}};
  }

  std::vector<std::string> pieces{"abc", "def"};
  std::string exported, uploaded;
  std::optional<service::BundleScan> scanned;
  std::optional<api::ApiError> refusal;
};

class FakeService final : public service::InferenceService {
 public:
  explicit FakeService(const asio::any_io_executor& loop)
      : script(std::make_shared<Script>(loop)), install(loop), accept_(loop) {}

  asio::awaitable<api::ApiResult<std::unique_ptr<engine::Generation>>> chat(
      const api::ChatRequest& request) override {
    last = request;
    co_await accept_.wait([this] { return !hold_accept; });
    if (refusal) co_return std::unexpected(*refusal);
    co_return std::make_unique<ScriptedGeneration>(script);
  }
  asio::awaitable<void> keep_calls(std::string caller, std::string, api::ChatMessage message) override {
    kept.emplace_back(std::move(caller), std::move(message));
    co_return;
  }
  asio::awaitable<json::value> list_models() override {
    co_return json::value{{"object", "list"}, {"data", json::array()}};
  }
  asio::awaitable<api::ApiResult<json::value>> retrieve_model(std::string id) override {
    if (id != "llama-cpp:a/b c")
      co_return std::unexpected(api::not_found("model_not_found", "no such model", "model"));
    co_return json::value{{"id", id}};
  }
  asio::awaitable<api::ApiResult<std::string>> default_model() override {
    if (default_id.empty())
      co_return std::unexpected(api::not_found("model_not_found", "no model is installed", "model"));
    co_return default_id;
  }
  asio::awaitable<json::value> describe_default() override {
    co_return json::object{{"provider", "llama-cpp"}, {"pinned", nullptr}, {"model", default_id}};
  }
  asio::awaitable<api::ApiResult<json::value>> pin_default(std::string model) override {
    default_id = std::move(model);
    co_return co_await describe_default();
  }
  json::value health() const override { return {{"ok", true}, {"version", "9.9"}}; }
  json::value ps() override { return ps_reply; }
  asio::awaitable<api::ApiResult<json::value>> stop_model(std::string model, bool force) override {
    co_return json::value{{"stopped", model}, {"force", force}};
  }
  asio::awaitable<api::ApiResult<json::value>> import_model(json::object request) override {
    co_return json::value{{"imported", string_or(request, "path")}};
  }
  json::value quarantine() override { return json::object{{"quarantined", json::array()}}; }
  api::ApiResult<json::value> clear_quarantine(std::string model) override {
    return json::object{{"cleared", model.size()}};
  }
  json::value memory(bool show_programs) override {
    return json::object{{"pools", json::array()}, {"programs", show_programs}};
  }
  asio::awaitable<api::ApiResult<json::value>> memory_plan(service::PlanRequest request) override {
    plan_asked = request;
    if (on_plan) on_plan();
    co_return json::object{{"model", request.model},
                           {"context", request.wish.context.value_or(0)},
                           {"slots", request.wish.slots.value_or(0)}};
  }
  asio::awaitable<api::ApiResult<json::value>> worker_stats(std::string model) override {
    co_return json::value{{"model", model}};
  }
  asio::awaitable<api::ApiResult<json::value>> calibration(std::string model) override {
    co_return json::value{{"model", model}, {"state", "idle"}};
  }
  asio::awaitable<api::ApiResult<json::value>> calibrate(std::string model) override {
    co_return json::value{{"model", model}, {"state", "measuring"}};
  }
  asio::awaitable<api::ApiResult<service::CacheAnswer>> cache(api::CacheRequest request) override {
    cache_asked = request;
    if (cache_refusal) co_return std::unexpected(*cache_refusal);
    service::CacheAnswer answer = cache_answer;
    answer.model = request.model;
    co_return answer;
  }
  asio::awaitable<json::value> cache_stats() override {
    co_return json::object{{"providers", json::array()}};
  }
  asio::awaitable<api::ApiResult<void>> evict_session(std::string key) override {
    forgotten.push_back(std::move(key));
    if (cache_refusal) co_return std::unexpected(*cache_refusal);
    co_return api::ApiResult<void>();
  }
  asio::awaitable<api::ApiResult<void>> clear_cache(std::string provider) override {
    forgotten.push_back(std::move(provider));
    if (cache_refusal) co_return std::unexpected(*cache_refusal);
    co_return api::ApiResult<void>();
  }
  asio::awaitable<api::ApiResult<json::value>> catalog(std::string path, std::string version) override {
    co_return json::value{{"path", path}, {"version", version}};
  }
  asio::awaitable<json::value> catalog_updates() override { co_return json::object{{"enabled", false}}; }
  asio::awaitable<json::value> check_catalog() override { co_return json::object{{"outcome", "blocked"}}; }
  asio::awaitable<api::ApiResult<json::value>> set_catalog_updates(std::optional<bool> enabled,
                                                                   std::optional<std::string> url) override {
    co_return json::object{{"enabled", enabled.value_or(false)}, {"url", url.value_or("")}};
  }
  service::Installs& installs() override { return install; }
  service::Bundles& bundles() override { return bundle; }
  asio::awaitable<void> stop() override { co_return; }
  bool stopping() const override { return false; }

  void accept() {
    hold_accept = false;
    accept_.ring();
  }

  std::shared_ptr<Script> script;
  FakeInstalls install;
  FakeBundles bundle;
  std::optional<api::ApiError> refusal;
  std::optional<api::ChatRequest> last;
  std::optional<service::PlanRequest> plan_asked;
  std::function<void()> on_plan;
  std::optional<api::CacheRequest> cache_asked;
  service::CacheAnswer cache_answer;
  std::vector<std::string> forgotten;
  std::optional<api::ApiError> cache_refusal;
  std::vector<std::pair<std::string, api::ChatMessage>> kept;
  json::value ps_reply{{"models", json::array()}};
  bool hold_accept = false;
  std::string default_id;  // the default model, "" = none

 private:
  Bell accept_;
};

class FakeCredentials final : public service::Credentials {
 public:
  std::optional<service::Credential> authenticate(std::string_view token) override {
    if (token == "key") return service::Credential{"default", "default", {"openai"}};
    if (token == "client") return service::Credential{"desktop-client", "client", {"ui", "openai"}};
    if (token == "remote") return service::Credential{"remote", "remote", {"remote-inference"}};
    return std::nullopt;
  }
  std::string client_token() const override { return "client"; }
  std::string root_token() const override { return "root"; }
  std::string api_key() const override { return "key"; }
  Result<std::string> rotate_api_key() override {
    if (fail_rotation) return fail(ErrorKind::io, "io", "write /home/iris/tokens.json: no space");
    return "new-key";
  }
  bool fail_rotation = false;
};

// Records what a handler writes; a test may make the client slow or let it go away.
class RecordedResponse final : public api::Response {
 public:
  explicit RecordedResponse(const asio::any_io_executor& loop) : bell(loop) {}

  asio::awaitable<bool> send(int code, api::Headers head, std::string text) override {
    EXPECT_FALSE(started_);
    started_ = ended = true;
    status = code;
    headers = std::move(head);
    body = std::move(text);
    bell.ring();
    co_return !gone;
  }
  asio::awaitable<bool> start_stream(int code, api::Headers head) override {
    EXPECT_FALSE(started_);
    started_ = true;
    status = code;
    headers = std::move(head);
    bell.ring();
    co_return !gone;
  }
  asio::awaitable<bool> write(std::string chunk) override {
    EXPECT_TRUE(started_);
    EXPECT_FALSE(ended);
    EXPECT_FALSE(writing) << "two writes at once";
    writing = true;
    co_await bell.wait([this] { return !blocked || gone; });
    writing = false;
    if (gone) co_return false;
    body += chunk;
    pieces.push_back(std::move(chunk));
    bell.ring();
    if (on_write) on_write();
    co_return true;
  }
  asio::awaitable<void> end_stream() override {
    ended = true;
    co_return;
  }
  bool started() const override { return started_; }
  void on_cancel(std::function<void(api::CancelReason)> callback) override { cancel_ = std::move(callback); }
  void cancel(api::CancelReason reason) {
    if (reason == api::CancelReason::client_gone) gone = true;
    if (cancel_) std::exchange(cancel_, {})(reason);
    bell.ring();
  }
  std::string header(std::string_view name) const {
    return std::string(api::find_header(headers, name).value_or(""));
  }

  int status = 0;
  api::Headers headers;
  std::string body;
  std::vector<std::string> pieces;
  bool ended = false, gone = false, blocked = false, writing = false;
  std::function<void()> on_write;
  Bell bell;

 private:
  bool started_ = false;
  std::function<void(api::CancelReason)> cancel_;
};

// A router over the fakes.
class RouterTest : public testing::Test {
 public:
  RouterTest() { make_router({}); }
  ~RouterTest() override { pool.join(); }

  void make_router(ChatTimings timings, bool no_auth = false) {
    router.emplace(Services{inference, credentials, clock, entropy, loop.get_executor(), pool,
                            [this] { stop_requested = true; }, no_auth, timings});
  }

  // Runs the loop until `work` and everything it started is done.
  void run(asio::awaitable<void> work) {
    std::exception_ptr failure;
    asio::co_spawn(loop, std::move(work), [&](const std::exception_ptr& thrown) { failure = thrown; });
    loop.restart();
    loop.run();
    if (failure) std::rethrow_exception(failure);
  }

  RecordedResponse& send(api::Request request) {
    responses.push_back(std::make_unique<RecordedResponse>(loop.get_executor()));
    run(router->handle(std::move(request), *responses.back()));
    return *responses.back();
  }

  static api::Request get(std::string target, std::string token = "key") {
    return {"GET",
            std::move(target),
            {{"host", "127.0.0.1:6228"}, {"authorization", "Bearer " + token}},
            "",
            false};
  }
  static api::Request post(std::string target, std::string body, std::string token = "key") {
    auto request = get(std::move(target), std::move(token));
    request.method = "POST";
    request.body = std::move(body);
    return request;
  }
  static api::Request chat(std::string_view extra = "") {
    return post(
        "/v1/chat/completions",
        R"({"model":"llama-cpp:m","messages":[{"role":"user","content":"hi"}])" + std::string(extra) + "}");
  }

  asio::io_context loop{1};
  FakeService inference{loop.get_executor()};
  FakeCredentials credentials;
  ManualClock clock;
  SystemEntropy entropy;
  asio::thread_pool pool{1};
  std::optional<Router> router;
  bool stop_requested = false;
  std::deque<std::unique_ptr<RecordedResponse>> responses;
};

inline engine::TextDelta text(std::string words) {
  return {std::move(words), {}};
}
inline engine::Done done(engine::FinishReason reason = engine::FinishReason::stop) {
  engine::Done event;
  event.reason = reason;
  event.usage = {.prompt_tokens = 10, .completion_tokens = 2, .cached_tokens = 4};
  return event;
}

}  // namespace gezel::http::test
