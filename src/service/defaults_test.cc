// The model for requests that name none, and what is settled at a start (spec 60 section 15).
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "service/test_service.h"

namespace gezel::service {
namespace {

using models::testing::tiny_model;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class DefaultModel : public testing::ServiceTest {
 protected:
  std::string default_id() {
    const auto id = wait(service->default_model());
    return id ? *id : id.error().code;
  }
  json::object config() {
    return parse_json(read_file(config_path(home.path())).value()).value().as_object();
  }
  // An item of the user's catalog.
  void offer(const std::string& id, std::string_view more = "", Bytes size = 1000) {
    const std::string folder = fmt::format("catalog/chat-models/{}/{}", id.substr(0, 2), id);
    home.write(
        folder + "/manifest.json",
        fmt::format(R"({{"id":"{0}","name":"Model {0}","description":"A model.","licenseClass":"open",)"
                    R"("maintainer":{{"name":"Org"}},"parameterSize":"1B","supportsTools":true{1}}})",
                    id, more));
    home.write(
        folder + "/versions/1.0.0/manifest.json",
        fmt::format(R"({{"version":"1.0.0","releasedAt":"2026-08-01T00:00:00Z","approxSizeBytes":{0},)"
                    R"("llamaCpp":{{"huggingfaceRepo":"org/model","filename":"{1}.gguf","sha256":"{2}",)"
                    R"("approxSizeBytes":{0}}}}})",
                    size, id, std::string(64, 'a')));
  }
  void machine_with(Bytes ram) {
    installs->profile = [ram] {
      capacity::HostFacts host;
      host.total_ram = ram;
      return capacity::plan_profile(host);
    };
  }
};

TEST_F(DefaultModel, ThePinnedOneAnswers) {
  install("a");
  clock.advance(Millis(60'000));
  install("b");
  options.pins = {.provider = "llama-cpp", .default_model = {{"llama-cpp", "a"}}};
  start();
  EXPECT_EQ(default_id(), "llama-cpp:a");
  ASSERT_TRUE(chat("default"));
  EXPECT_EQ(engines["llama-cpp:a"]->generated, 1);
}

TEST_F(DefaultModel, Case45TheNewestStandsInForAPinThatIsNotInstalled) {
  install("a");
  clock.advance(Millis(60'000));
  install("b");
  options.pins.default_model = {{"llama-cpp", "qwen3.6-27b-q8"}};
  start();
  EXPECT_EQ(default_id(), "llama-cpp:b");
  EXPECT_EQ(wait(service->retrieve_model("default"))->at("id").as_string(), "llama-cpp:b");
  for (const char* name : {"llama-cpp", "llama-cpp:"}) ASSERT_TRUE(chat(name)) << name;
  EXPECT_EQ(engines["llama-cpp:b"]->generated, 2);
}

TEST_F(DefaultModel, AModelThatIsCalledDefaultIsItself) {
  install("default");
  clock.advance(Millis(60'000));
  install("b");
  start();
  ASSERT_TRUE(chat("default"));
  EXPECT_EQ(engines["llama-cpp:default"]->generated, 1);
}

TEST_F(DefaultModel, WithNothingInstalledTheErrorSaysHowToGetIt) {
  offer("small-q4", R"(,"recoScore":50)");
  machine_with(64 * kGiB);
  start();
  const auto id = wait(service->default_model());
  ASSERT_FALSE(id);
  EXPECT_EQ(id.error().status, 404);
  EXPECT_EQ(id.error().code, "model_not_found");
  EXPECT_THAT(id.error().message,
              AllOf(HasSubstr("no model is installed"), HasSubstr("gezel pull small-q4")));
}

TEST_F(DefaultModel, AFileThatWasInstalledByHandSinceTheLastLookIsFound) {
  start();
  EXPECT_EQ(default_id(), "model_not_found");
  install("a");
  EXPECT_EQ(default_id(), "llama-cpp:a");
}

TEST_F(DefaultModel, AFirstRunPinsTheOnlyInstalledModelAndIsRemembered) {
  install("a");
  start();
  settle();
  EXPECT_EQ(config(), parse_json(R"({"provider":"llama-cpp","defaultModel":{"llama-cpp":"a"},)"
                                 R"("firstRunCompleted":true})")
                          .value()
                          .as_object());
}

TEST_F(DefaultModel, AFirstRunWithNothingInstalledPinsWhatSuitsTheMachineAndDownloadsNothing) {
  offer("large-q4", R"(,"recoScore":90)", 500 * kGiB);
  offer("small-q4", R"(,"recoScore":50)");
  machine_with(64 * kGiB);
  start();
  settle();
  EXPECT_EQ(config().at("defaultModel").at("llama-cpp").as_string(), "small-q4");
  EXPECT_THAT(wait(service->installs().incomplete()).at("incomplete").as_array(), IsEmpty());
  EXPECT_THAT(service->installs().active().at("installs").as_array(), IsEmpty());
}

TEST_F(DefaultModel, APinThatIsInstalledIsLeftAlone) {
  install("a");
  install("b");
  options.pins = {.provider = "llama-cpp", .default_model = {{"llama-cpp", "a"}}};
  options.first_run_completed = true;
  start();
  settle();
  EXPECT_FALSE(fs::exists(config_path(home.path())));
}

TEST_F(DefaultModel, Case48AnOldNameMeansThePinnedModel) {
  install("qwen3.6-27b-q4");
  offer("qwen3.6-27b-q4", R"(,"aliases":["qwen3.6"])");
  options.pins = {.provider = "llama-cpp", .default_model = {{"llama-cpp", "qwen3.6-27b-q4"}}};
  start();
  ASSERT_TRUE(chat("qwen3.6"));
  EXPECT_EQ(engines["llama-cpp:qwen3.6-27b-q4"]->generated, 1);
}

TEST_F(DefaultModel, APinIsKeptAndCountsAtOnce) {
  install("a");
  clock.advance(Millis(60'000));
  install("b");
  start();
  settle();
  const auto pinned = wait(service->pin_default("a"));
  ASSERT_TRUE(pinned) << pinned.error().message;
  EXPECT_EQ(*pinned, parse_json(R"({"provider":"llama-cpp","pinned":"a","model":"llama-cpp:a"})").value());
  EXPECT_EQ(default_id(), "llama-cpp:a");
  EXPECT_EQ(read_config(home.path()).config.pins.default_model.at("llama-cpp"), "a");
}

TEST_F(DefaultModel, PinningWhatIsNotInstalledIsRefused) {
  install("a");
  start();
  EXPECT_EQ(wait(service->pin_default("nope")).error().code, "model_not_found");
  EXPECT_EQ(default_id(), "llama-cpp:a");
}

TEST_F(DefaultModel, AProviderThatIsNotPartOfThisVersionIsNamed) {
  install("a");
  options.pins.provider = "mlx";
  start();
  const auto id = wait(service->default_model());
  ASSERT_FALSE(id);
  EXPECT_THAT(id.error().message, AllOf(HasSubstr("\"mlx\""), HasSubstr("config.json")));
  EXPECT_TRUE(chat("a"));
}

TEST_F(DefaultModel, AStartLeavesWrongMembersOfTheConfigurationAsTheyAre) {
  install("a");
  home.write("config.json", R"({"provider":7,"defaultModel":["a"]})");
  start();
  settle();
  EXPECT_EQ(config().at("provider"), json::value(7));
  EXPECT_EQ(config().at("defaultModel"), json::value(json::array{"a"}));
  EXPECT_TRUE(config().at("firstRunCompleted").as_bool());
}

TEST_F(DefaultModel, AStartKeepsAWrongPinOfTheConfiguration) {
  install("a");
  home.write("config.json", R"({"defaultModel":{"llama-cpp":7},"firstRunCompleted":"no"})");
  start();
  settle();
  EXPECT_EQ(config().at("provider").as_string(), "llama-cpp");
  EXPECT_EQ(config().at("defaultModel").at("llama-cpp"), json::value(7));
  EXPECT_EQ(config().at("firstRunCompleted").as_string(), "no");
}

}  // namespace
}  // namespace gezel::service
