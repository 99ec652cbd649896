// Models of any address through the service; downloads come from memory.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "service/test_service.h"

namespace gezel::service {
namespace {

using models::testing::tiny_model;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

constexpr std::string_view kAddress = "https://models.example/a/m.gguf";

class UrlEnsure : public testing::ServiceTest {
 protected:
  api::ApiResult<EnsuredModel> ensure(std::string_view model, std::string id = {}, std::string sha256 = {}) {
    return wait(service->installs().ensure({.model = std::string(model),
                                            .allow_network_names = true,
                                            .id = std::move(id),
                                            .sha256 = std::move(sha256)}));
  }
  // Ensures, runs the job to its end, and returns what it ended with: "ready", "done", or the code of an
  // error.
  std::string pull(std::string_view model, std::string id = {}, std::string sha256 = {}) {
    const auto started = ensure(model, std::move(id), std::move(sha256));
    if (!started) return fmt::format("{} {}", started.error().status, started.error().code);
    model_id = started->model_id;
    if (started->job_id.empty()) return "ready";
    settle();
    const auto view = service->installs().job(started->job_id);
    const auto& events = view->at("events").as_array();
    const auto& last = events.back().as_object();
    return string_or(last, "type") == "error" ? string_or(last, "code") : string_or(last, "type");
  }

  std::string model_id;
};

TEST_F(UrlEnsure, IsInstalledOnceAndThenReady) {
  client.files["m.gguf"] = tiny_model();
  start();
  EXPECT_EQ(pull(kAddress), "done");
  EXPECT_EQ(model_id, "llama-cpp:local-m");
  EXPECT_EQ(pull(kAddress), "ready");
  EXPECT_EQ(pull("url:" + std::string(kAddress)), "ready");
  EXPECT_EQ(pull(kAddress, "", sha256_hex(tiny_model())), "ready") << "it has that digest";
  client.files["m.gguf"] = tiny_model("llama", 4096);
  EXPECT_EQ(pull(kAddress), "done") << "the host has another file now";
  EXPECT_EQ(read_file(store.find("local-m")->weights).value(), tiny_model("llama", 4096));
  EXPECT_TRUE(chat("llama-cpp:local-m"));
}

TEST_F(UrlEnsure, TheSameFileAtTwoAddressesIsTwoModels) {
  client.files["m.gguf"] = tiny_model();
  start();
  ASSERT_EQ(pull(kAddress), "done");
  ASSERT_EQ(pull("https://models.example/b/m.gguf"), "done");
  EXPECT_THAT(model_id, StartsWith("llama-cpp:local-m-"));
  EXPECT_EQ(pull("https://models.example/b/m.gguf"), "ready");
  EXPECT_EQ(pull("https://models.example/b/m.gguf", "local-m"), "409 model_exists");
  EXPECT_EQ(pull("https://models.example/b/m.gguf", "notes"), "done");
  EXPECT_EQ(model_id, "llama-cpp:notes");
}

TEST_F(UrlEnsure, ADigestIsCheckedAndAWrongOneInstallsNothing) {
  client.files["m.gguf"] = tiny_model();
  start();
  EXPECT_EQ(pull(kAddress, "", std::string(64, 'a')), "hash_mismatch");
  EXPECT_FALSE(store.find("local-m"));
  EXPECT_EQ(pull(std::string(kAddress) + "#sha256=" + sha256_hex(tiny_model())), "done");
}

TEST_F(UrlEnsure, WhatIsNoModelIsRefusedBeforeAJobBegins) {
  client.files["m.gguf"] = "<html>sign in</html>";
  start();
  const auto refused = ensure(kAddress);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().status, 502);
  EXPECT_EQ(refused.error().code, "model_invalid");
  EXPECT_THAT(refused.error().message, AllOf(HasSubstr("models.example"), HasSubstr("m.gguf")));
  EXPECT_EQ(pull("https://models.example/none.gguf"), "404 file_not_on_host");
  EXPECT_THAT(service->installs().active().at("installs").as_array(), IsEmpty());
}

TEST_F(UrlEnsure, TwoCallersShareOneInstall) {
  client.files["m.gguf"] = tiny_model();
  start();
  std::vector<std::string> jobs;
  for (int i = 0; i < 2; ++i) {
    asio::co_spawn(
        loop,
        [&]() -> asio::awaitable<void> {
          EnsureRequest request{.model = std::string(kAddress), .allow_network_names = true};
          const auto started = co_await service->installs().ensure(std::move(request));
          jobs.push_back(started ? started->job_id : started.error().code);
        },
        asio::detached);
  }
  settle();
  ASSERT_EQ(jobs.size(), 2U);
  EXPECT_EQ(jobs[0], jobs[1]);
  EXPECT_NE(jobs[0], "");
}

TEST_F(UrlEnsure, AMirrorWithTheSameDigestAnswersForAHostThatHasTheFileNoMore) {
  client.files["m.gguf"] = tiny_model();
  client.down = {"models.example", "gone.example"};
  start();
  const auto ensure_from_mirrors = [&] {
    return wait(
        service->installs().ensure({.model = std::string(kAddress),
                                    .allow_network_names = true,
                                    .sha256 = sha256_hex(tiny_model()),
                                    .mirrors = {"https://gone.example/x/", "https://mirror.example"}}));
  };
  const auto started = ensure_from_mirrors();
  ASSERT_TRUE(started) << started.error().message;
  settle();
  EXPECT_TRUE(store.find("local-m"));
  EXPECT_EQ(client.hosts.back(), "mirror.example");
  EXPECT_EQ(ensure_from_mirrors()->job_id, "") << "it is the same model";
}

TEST_F(UrlEnsure, MirrorsNeedADigest) {
  client.files["m.gguf"] = tiny_model();
  start();
  const auto refused = wait(service->installs().ensure(
      {.model = std::string(kAddress), .allow_network_names = true, .mirrors = {"https://mirror.example"}}));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, "invalid_mirrors");
  EXPECT_THAT(refused.error().message, HasSubstr("sha256"));
  EXPECT_THAT(client.asked, IsEmpty());
}

TEST_F(UrlEnsure, BadWishesAreNamed) {
  start();
  EXPECT_EQ(pull("http://models.example/m.gguf"), "400 bad_url");
  EXPECT_EQ(pull("file:///models/m.gguf"), "400 bad_url");
  EXPECT_EQ(pull(kAddress, "../x"), "400 invalid-model-id");
  EXPECT_EQ(pull(kAddress, "", "abc"), "400 invalid_sha256");
  EXPECT_EQ(pull("llama-cpp:some-q4", "notes"), "400 invalid_request");
  const auto refused = wait(service->installs().ensure({.model = std::string(kAddress)}));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, "missing_scope:ui");
  EXPECT_THAT(client.asked, IsEmpty());
}

TEST_F(UrlEnsure, AnAddressOfTheHubIsItsNameThere) {
  const std::string commit(40, 'c'), content = tiny_model();
  client.files["main"] = R"({"sha":")" + commit + R"("})";
  client.files[commit + "?recursive=true"] =
      fmt::format(R"([{{"type":"file","path":"m.gguf","size":{},"lfs":{{"oid":"{}"}}}}])", content.size(),
                  sha256_hex(content));
  client.files["m.gguf?download=true"] = content;
  start();
  EXPECT_EQ(pull("https://huggingface.co/org/repo/blob/main/m.gguf"), "done");
  EXPECT_EQ(store.find("local-m")->source, "huggingface");
  EXPECT_EQ(pull("hf:org/repo"), "ready");
  EXPECT_EQ(pull("hf:org/repo", "", std::string(64, 'a')), "400 invalid_sha256");
}

TEST_F(UrlEnsure, ADeletedOneIsGone) {
  client.files["m.gguf"] = tiny_model();
  start();
  ASSERT_EQ(pull(kAddress), "done");
  EXPECT_TRUE(wait(service->installs().remove("local-m", false)));
  EXPECT_FALSE(store.find("local-m"));
  EXPECT_EQ(pull(kAddress), "done");
}

}  // namespace
}  // namespace gezel::service
