#include <gmock/gmock.h>

#include "http/test_support.h"

namespace gezel::http::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class InstallHandlers : public RouterTest {
 protected:
  FakeInstalls& installs() { return inference.install; }
  FakeEvents& events() { return *inference.install.events; }
  static api::Request remove(std::string target) {
    auto request = get(std::move(target), "client");
    request.method = "DELETE";
    return request;
  }
};

TEST_F(InstallHandlers, EnsureAnswers202WithTheJobAnd200WhenTheModelIsThere) {
  auto& started = send(post("/v1/models/ensure", R"({"model":"llama-cpp:m"})"));
  EXPECT_EQ(started.status, 202);
  EXPECT_EQ(started.body, R"({"status":"downloading","model_id":"llama-cpp:m","job_id":"job-1"})");
  installs().job_id = "";
  auto& ready = send(post("/v1/models/ensure", R"({"model":"llama-cpp:m"})"));
  EXPECT_EQ(ready.status, 200);
  EXPECT_EQ(ready.body, R"({"status":"ready","model_id":"llama-cpp:m"})");
}

TEST_F(InstallHandlers, OnlyManagementMayNameARepository) {
  send(post("/v1/models/ensure", R"({"model":"hf:org/repo"})"));
  EXPECT_FALSE(installs().hub_allowed);
  send(post("/v1/models/ensure", R"({"model":"hf:org/repo"})", "client"));
  EXPECT_TRUE(installs().hub_allowed);
  EXPECT_EQ(installs().asked, "hf:org/repo");
}

TEST_F(InstallHandlers, MirrorsKeepTheirOrder) {
  send(post("/v1/models/ensure", R"({"model":"hf:o/r","mirrors":["https://b.example","https://a.example"]})",
            "client"));
  ASSERT_TRUE(installs().ensured);
  EXPECT_THAT(installs().ensured->mirrors, ElementsAre("https://b.example", "https://a.example"));
}

TEST_F(InstallHandlers, AMirrorThatIsNoTextIsNamed) {
  auto& refused = send(post("/v1/models/ensure", R"({"model":"hf:o/r","mirrors":["https://a.example",7]})"));
  EXPECT_EQ(refused.status, 400);
  EXPECT_THAT(refused.body, HasSubstr("mirrors[1]"));
  EXPECT_THAT(send(post("/v1/models/ensure", R"({"mirrors":"https://a.example"})")).body,
              HasSubstr("must be an array"));
  EXPECT_FALSE(installs().ensured);
}

TEST_F(InstallHandlers, AClientThatGoesAwayEndsTheQuestionsBeforeAnInstall) {
  installs().on_ensure = [this] {
    EXPECT_FALSE(installs().ensured->cancelled->cancelled());
    responses.back()->cancel(api::CancelReason::client_gone);
    EXPECT_TRUE(installs().ensured->cancelled->cancelled());
  };
  send(post("/v1/models/ensure", R"({"model":"hf:org/repo"})", "client"));
}

TEST_F(InstallHandlers, EnsureNamesABodyThatIsWrong) {
  EXPECT_THAT(send(post("/v1/models/ensure", "[]")).body, HasSubstr("invalid_body"));
  EXPECT_THAT(send(post("/v1/models/ensure", "{")).body, HasSubstr("invalid_json"));
  EXPECT_THAT(send(post("/v1/models/ensure", R"({"model":7})")).body, HasSubstr("model"));
  EXPECT_EQ(installs().asked, "");
  // Nothing at all is what the service calls ambiguous.
  EXPECT_EQ(send(post("/v1/models/ensure", "{}")).status, 202);
}

TEST_F(InstallHandlers, ErrorsHaveTheFormOfTheirRoute) {
  installs().refusal = api::not_found("unknown_model", "not in the catalog", "model");
  EXPECT_THAT(send(post("/v1/models/ensure", R"({"model":"llama-cpp:m"})")).body,
              HasSubstr(R"({"error":{"message":"not in the catalog")"));
  EXPECT_THAT(send(post("/api/llama-cpp/models/m/install", "", "client")).body,
              HasSubstr(R"({"error":"unknown_model")"));
}

TEST_F(InstallHandlers, AJobIsReadById) {
  EXPECT_EQ(send(get("/v1/models/ensure/job-1")).body, R"({"job_id":"job-1"})");
  EXPECT_EQ(send(get("/v1/models/ensure/other")).status, 404);
  EXPECT_EQ(send(get("/v1/models/ensure/other/events")).status, 404);
}

TEST_F(InstallHandlers, EventsAreStreamedWithPingsInSilenceUntilTheEnd) {
  events().silences = 1;
  RecordedResponse response(loop.get_executor());
  response.on_write = [&] {
    if (response.pieces.size() > 1) return;
    events().news = {R"({"type":"progress"})", R"({"type":"done"})"};
    events().last = true;
  };
  run(router->handle(get("/v1/models/ensure/job-1/events"), response));
  EXPECT_EQ(response.header("content-type"), "text/event-stream");
  EXPECT_THAT(response.pieces, ElementsAre("event: ping\ndata:\n\n",
                                           "data: {\"type\":\"progress\"}\n\ndata: {\"type\":\"done\"}\n\n"));
  EXPECT_TRUE(response.ended);
}

TEST_F(InstallHandlers, AClientThatGoesAwayEndsTheWatchingAtOnce) {
  RecordedResponse response(loop.get_executor());
  const auto leave = [&]() -> asio::awaitable<void> {
    co_await response.bell.wait([&] { return response.started(); });
    response.cancel(api::CancelReason::client_gone);
  };
  asio::co_spawn(loop, leave(), asio::detached);
  run(router->handle(get("/v1/models/ensure/job-1/events"), response));
  EXPECT_TRUE(events().woken);
  EXPECT_EQ(response.body, "");
}

TEST_F(InstallHandlers, TheHeadOfAStreamDoesNotWaitForTheInstall) {
  auto request = get("/v1/models/ensure/job-1/events");
  request.method = "HEAD";
  EXPECT_EQ(send(request).status, 200);
  EXPECT_EQ(events().asked, 0);
}

TEST_F(InstallHandlers, ManagementInstallsWithItsOptions) {
  events().news = {R"({"type":"done"})"};
  events().last = true;
  EXPECT_EQ(
      send(post("/api/llama-cpp/models/a%3Ab/install?skipSha=1&includeMmproj=false", "", "client")).status,
      200);
  ASSERT_TRUE(installs().requested);
  EXPECT_EQ(installs().requested->id, "a:b");
  EXPECT_TRUE(installs().requested->skip_sha);
  EXPECT_FALSE(installs().requested->include_projector);
  EXPECT_EQ(send(post("/api/llama-cpp/models/a", "", "client")).status, 404);
}

TEST_F(InstallHandlers, DeletesModelsAndCancelsInstalls) {
  EXPECT_EQ(send(remove("/api/llama-cpp/models/running/install")).body, R"({"aborted":true})");
  EXPECT_EQ(send(remove("/api/llama-cpp/models/m")).body, R"({"removed":"m","force":false})");
  EXPECT_EQ(send(remove("/api/llama-cpp/models/m?force=1")).body, R"({"removed":"m","force":true})");
}

TEST_F(InstallHandlers, ManagementRoutesAreClosedToApiKeys) {
  for (const char* target : {"/api/llama-cpp/models", "/api/llama-cpp/active-installs",
                             "/api/llama-cpp/incomplete", "/api/models/discovered"}) {
    EXPECT_EQ(send(get(target)).status, 403) << target;
    EXPECT_EQ(send(get(target, "client")).status, 200) << target;
  }
  EXPECT_EQ(send(get("/api/models/discovered?source=ollama", "client")).body, R"({"source":"ollama"})");
}

}  // namespace
}  // namespace gezel::http::test
