#include "http/router.h"

#include <gmock/gmock.h>

#include "base/bytes.h"
#include "http/test_support.h"

namespace gezel::http::test {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string error_code(const RecordedResponse& response) {
  const auto body = parse_json(response.body);
  if (!body || !body->is_object()) return "no JSON: " + response.body;
  const auto* envelope = object_at(body->get_object(), "error");
  return envelope != nullptr ? string_or(*envelope, "code") : string_or(body->get_object(), "error");
}

TEST_F(RouterTest, PutsSecurityHeadersOnEverything) {
  for (const auto& response :
       {&send(get("/health")), &send(get("/v1/nothing")), &send(get("/v1/models", "wrong"))}) {
    EXPECT_EQ(response->header("x-content-type-options"), "nosniff");
    EXPECT_EQ(response->header("referrer-policy"), "no-referrer");
    EXPECT_EQ(response->header("x-frame-options"), "DENY");
    EXPECT_EQ(response->header("x-dns-prefetch-control"), "off");
    EXPECT_EQ(response->header("content-security-policy"), "default-src 'none'; frame-ancestors 'none'");
    EXPECT_EQ(response->header("x-request-id").size(), 36U);
  }
}

TEST_F(RouterTest, EchoesAUsableRequestIdOnly) {
  const auto ask = [this](std::string id) {
    auto request = get("/health");
    request.headers.emplace_back("x-request-id", std::move(id));
    return send(std::move(request)).header("x-request-id");
  };
  EXPECT_EQ(ask("abc-1"), "abc-1");
  EXPECT_NE(ask("two words"), "two words");
  EXPECT_NE(ask(std::string(129, 'x')), std::string(129, 'x'));
}

TEST_F(RouterTest, AnswersLoopbackHostsOnly) {
  const std::pair<const char*, int> cases[] = {{"127.0.0.1:6228", 200},
                                               {"127.0.0.1", 200},
                                               {"localhost:1", 200},
                                               {"LOCALHOST", 200},
                                               {"[::1]:6228", 200},
                                               {"[::1]", 200},
                                               {"::1", 200},
                                               {"evil.example", 403},
                                               {"192.168.1.9:6228", 403},
                                               {"", 403},
                                               {"localhost.evil.example", 403},
                                               {"127.0.0.1:6228:1", 403},
                                               {"127.0.0.1:", 403}};
  for (const auto& [host, status] : cases) {
    auto request = get("/health");
    request.headers[0].second = host;
    const auto& response = send(std::move(request));
    EXPECT_EQ(response.status, status) << host;
    if (status == 403) EXPECT_EQ(response.body, R"({"error":"forbidden_host"})") << host;
  }
  auto without = get("/health");
  without.headers.erase(without.headers.begin());
  EXPECT_EQ(send(std::move(without)).status, 403);
  auto twice = get("/health");
  twice.headers.emplace_back("host", "evil.example");
  EXPECT_EQ(send(std::move(twice)).status, 403);
}

TEST_F(RouterTest, ChecksTheHostBeforeCredentials) {
  auto request = get("/v1/models", "wrong");
  request.headers[0].second = "evil.example";
  EXPECT_EQ(send(std::move(request)).status, 403);
}

TEST_F(RouterTest, AnswersPreflightsWithoutCredentials) {
  api::Request request{"OPTIONS",
                       "/v1/chat/completions",
                       {{"host", "localhost"},
                        {"origin", "http://localhost:5173"},
                        {"access-control-request-headers", "x-stainless-os"},
                        {"access-control-request-private-network", "true"}},
                       "",
                       false};
  const auto& response = send(request);
  EXPECT_EQ(response.status, 204);
  EXPECT_EQ(response.header("access-control-allow-origin"), "http://localhost:5173");
  EXPECT_EQ(response.header("access-control-allow-headers"), "x-stainless-os");
  EXPECT_EQ(response.header("access-control-allow-methods"), "GET, POST, DELETE, OPTIONS");
  EXPECT_EQ(response.header("access-control-max-age"), "86400");
  EXPECT_EQ(response.header("access-control-allow-private-network"), "true");
  EXPECT_EQ(response.header("vary"), "Origin");

  request.target = "/v1/apps/register";
  EXPECT_EQ(send(request).header("access-control-allow-origin"), "");
  request.target = "/api/ps";
  EXPECT_EQ(send(request).header("access-control-allow-origin"), "");
}

TEST_F(RouterTest, RepeatsCorsHeadersOnErrorsAndNeverWithoutOrigin) {
  auto request = get("/v1/models", "wrong");
  request.headers.emplace_back("origin", "http://localhost:5173");
  const auto& refused = send(std::move(request));
  EXPECT_EQ(refused.status, 401);
  EXPECT_EQ(refused.header("access-control-allow-origin"), "http://localhost:5173");
  EXPECT_EQ(refused.header("access-control-expose-headers"), "x-request-id, retry-after");
  EXPECT_EQ(send(get("/v1/models")).header("access-control-allow-origin"), "");
}

TEST_F(RouterTest, TakesTheTokenFromThreeHeaders) {
  const std::vector<std::pair<std::string, std::string>> good{{"authorization", "Bearer key"},
                                                              {"authorization", "bEARER   key"},
                                                              {"x-api-key", "key"},
                                                              {"api-key", "key"}};
  for (const auto& header : good) {
    EXPECT_EQ(send({"GET", "/v1/models", {{"host", "localhost"}, header}, "", false}).status, 200)
        << header.second;
  }
  for (const auto& header : {std::pair<std::string, std::string>("authorization", "Basic key"),
                             std::pair<std::string, std::string>("authorization", "key"),
                             std::pair<std::string, std::string>("authorization", "Bearer ")}) {
    const auto& response =
        send({"GET", "/v1/models?api_key=key", {{"host", "localhost"}, header}, "", false});
    EXPECT_EQ(response.status, 401) << header.second;
    EXPECT_EQ(response.header("www-authenticate"), "Bearer");
    EXPECT_EQ(error_code(response), "invalid_api_key");
    EXPECT_THAT(response.body, HasSubstr("gezel key"));
  }
}

TEST_F(RouterTest, NamesTheMissingScope) {
  const auto& response = send(get("/v1/models", "remote"));
  EXPECT_EQ(response.status, 403);
  EXPECT_EQ(error_code(response), "missing_scope:openai");
  EXPECT_THAT(response.body, HasSubstr("permission_error"));
  EXPECT_EQ(send(get("/api/ps", "key")).body,
            R"({"error":"missing_scope:ui","message":"this key lacks the scope 'ui' that the route needs"})");
}

TEST_F(RouterTest, WithoutAuthenticationOpensInferenceButNotManagement) {
  make_router({}, true);
  EXPECT_EQ(send({"GET", "/v1/models", {{"host", "localhost"}}, "", false}).status, 200);
  EXPECT_EQ(send(get("/v1/models", "sk-anything")).status, 200);
  EXPECT_EQ(send({"POST", "/api/shutdown", {{"host", "localhost"}}, "", false}).status, 403);
  EXPECT_EQ(send(post("/api/shutdown", "", "client")).status, 202);
}

TEST_F(RouterTest, TellsUnknownPathsFromWrongMethods) {
  const auto& unknown = send(get("/v1/nothing"));
  EXPECT_EQ(unknown.status, 404);
  EXPECT_EQ(error_code(unknown), "not_found");
  const auto& wrong = send(get("/v1/chat/completions"));
  EXPECT_EQ(wrong.status, 405);
  EXPECT_EQ(wrong.header("allow"), "POST");
  EXPECT_EQ(send(post("/v1/models", "")).header("allow"), "GET, HEAD");
  EXPECT_EQ(send(get("/")).status, 404);
  EXPECT_THAT(send(get("/api/nothing")).body, HasSubstr(R"("error":"not_found")"));
  auto head = get("/v1/models");
  head.method = "HEAD";
  EXPECT_EQ(send(head).status, 200);
}

TEST_F(RouterTest, RefusesLargeBodiesByTheirAnnouncedLength) {
  auto request = post("/v1/chat/completions", "");
  request.headers.emplace_back("content-length", std::to_string(64 * kMiB + 1));
  const auto& response = send(request);
  EXPECT_EQ(response.status, 413);
  EXPECT_EQ(error_code(response), "request_too_large");
  EXPECT_THAT(response.body, HasSubstr("67108864"));
  request.headers.back().second = "99999999999999999999999999";
  EXPECT_EQ(send(request).status, 413);
  EXPECT_EQ(send(post("/api/stop", std::string(kMiB + 1, ' '), "client")).status, 413);
}

TEST_F(RouterTest, DecodesModelIds) {
  for (const char* target : {"/v1/models/llama-cpp:a/b%20c", "/v1/models/llama-cpp%3Aa%2Fb%20c"}) {
    EXPECT_EQ(send(get(target)).body, R"({"id":"llama-cpp:a/b c"})") << target;
  }
  EXPECT_EQ(send(get("/v1/models/nope%zz")).status, 404);
}

TEST_F(RouterTest, AnswersHealthUnderThreeNamesWithoutCredentials) {
  for (const char* target : {"/health", "/v1/health", "/api/health"}) {
    const auto& response = send({"GET", target, {{"host", "localhost"}}, "", false});
    EXPECT_EQ(response.status, 200);
    EXPECT_EQ(response.body, R"({"ok":true,"version":"9.9"})");
  }
}

TEST_F(RouterTest, RefusesEverythingButHealthWhileStopping) {
  router->begin_stop();
  const auto& health = send(get("/health"));
  EXPECT_EQ(health.status, 503);
  EXPECT_EQ(health.body, R"({"ok":false,"stopping":true})");
  const auto& models = send(get("/v1/models"));
  EXPECT_EQ(models.status, 503);
  EXPECT_EQ(error_code(models), "shutting_down");
  EXPECT_THAT(models.body, HasSubstr(R"("request_id":")" + models.header("x-request-id")));
}

TEST_F(RouterTest, APlanMayNameTheNetworkOnlyWithTheScopeForThat) {
  const std::string target = "/v1/memory/plan?model=hf%3Aorg%2Frepo%3AQ4_K_M&context=4096&slots=2";
  EXPECT_EQ(send(get(target)).status, 200);
  EXPECT_EQ(inference.plan_asked->model, "hf:org/repo:Q4_K_M");
  EXPECT_EQ(inference.plan_asked->wish.context, 4096);
  EXPECT_EQ(inference.plan_asked->wish.slots, 2);
  EXPECT_FALSE(inference.plan_asked->allow_network_names);
  EXPECT_EQ(send(get(target, "client")).status, 200);
  EXPECT_TRUE(inference.plan_asked->allow_network_names);
}

TEST_F(RouterTest, OtherProgramsAreShownOnlyWithTheScopeForThat) {
  EXPECT_EQ(send(get("/v1/memory")).body, R"({"pools":[],"programs":false})");
  EXPECT_EQ(send(get("/v1/memory", "client")).body, R"({"pools":[],"programs":true})");
}

TEST_F(RouterTest, AClientThatGoesAwayEndsItsPlan) {
  inference.on_plan = [this] {
    EXPECT_FALSE(inference.plan_asked->cancelled->cancelled());
    responses.back()->cancel(api::CancelReason::client_gone);
    EXPECT_TRUE(inference.plan_asked->cancelled->cancelled());
  };
  send(get("/v1/memory/plan?model=m"));
}

TEST_F(RouterTest, ServesTheManagementRoutes) {
  EXPECT_EQ(send(get("/api/ps", "client")).body, R"({"models":[]})");
  EXPECT_EQ(send(get("/api/stats?a=1&model=llama-cpp%3Am+x", "client")).body, R"({"model":"llama-cpp:m x"})");
  EXPECT_EQ(send(get("/api/stats", "client")).status, 400);
  EXPECT_EQ(send(get("/api/quarantine", "client")).body, R"({"quarantined":[]})");
  EXPECT_EQ(send(post("/api/quarantine/clear", R"({"model":"abc"})", "client")).body, R"({"cleared":3})");
  EXPECT_EQ(send(post("/api/quarantine/clear", "", "client")).body, R"({"cleared":0})");
  EXPECT_EQ(send(post("/api/quarantine/clear", R"({"model":""})", "client")).status, 400);
  EXPECT_EQ(send(post("/api/models/import", R"({"path":"/x.gguf"})", "client")).body,
            R"({"imported":"/x.gguf"})");
  EXPECT_EQ(send(post("/api/models/import", "[1", "client")).status, 400);
  EXPECT_EQ(send(post("/api/models/import", "[]", "client")).status, 400);
  const auto& rotated = send(post("/api/key/rotate", "", "client"));
  EXPECT_EQ(rotated.body, R"({"key":"new-key"})");
  EXPECT_EQ(rotated.header("cache-control"), "no-store");
}

TEST_F(RouterTest, StopUnloadsAModelOrEndsTheDaemon) {
  EXPECT_EQ(send(post("/api/stop", R"({"model":"m","force":true})", "client")).body,
            R"({"stopped":"m","force":true})");
  EXPECT_EQ(send(post("/api/stop", R"({"model":1,"force":"x"})", "client")).status, 400);
  EXPECT_FALSE(stop_requested);
  inference.ps_reply = {{"models", {{{"id", "m"}, {"slots_busy", 1}}}}};
  EXPECT_EQ(send(post("/api/stop", "{}", "client")).status, 409);
  EXPECT_FALSE(stop_requested);
  EXPECT_EQ(send(post("/api/stop", R"({"force":true})", "client")).status, 202);
  EXPECT_TRUE(stop_requested);
}

TEST_F(RouterTest, AMisspeltMemberNeverMeansEverything) {
  for (const char* body : {R"({"modell":"m"})", R"({"Model":"m"})", R"({"model":"m","forced":true})"}) {
    const auto& response = send(post("/api/stop", body, "client"));
    EXPECT_EQ(response.status, 400) << body;
    EXPECT_EQ(error_code(response), "invalid_body") << body;
    EXPECT_THAT(response.body, HasSubstr("it may be model or force")) << body;
  }
  EXPECT_FALSE(stop_requested);
  EXPECT_EQ(send(post("/api/quarantine/clear", R"({"modell":"abc"})", "client")).status, 400);
}

TEST_F(RouterTest, ShutdownAnswersAndThenStops) {
  const auto& response = send(post("/api/shutdown", "", "client"));
  EXPECT_EQ(response.status, 202);
  EXPECT_TRUE(stop_requested);
}

TEST_F(RouterTest, HidesWhatServerErrorsSay) {
  credentials.fail_rotation = true;
  const auto& flat = send(post("/api/key/rotate", "", "client"));
  EXPECT_EQ(flat.status, 500);
  EXPECT_THAT(flat.body, Not(HasSubstr("iris")));
  EXPECT_THAT(flat.body, HasSubstr(R"("requestId":")" + flat.header("x-request-id")));

  inference.script->throws = true;
  const auto& thrown = send(chat());
  EXPECT_EQ(thrown.status, 500);
  EXPECT_EQ(error_code(thrown), "internal_error");
  EXPECT_THAT(thrown.body, Not(HasSubstr("secret")));
}

TEST_F(RouterTest, NeedsNoTokenInProcess) {
  EXPECT_EQ(send({"GET", "/api/ps", {}, "", true}).status, 200);
}

}  // namespace
}  // namespace gezel::http::test
