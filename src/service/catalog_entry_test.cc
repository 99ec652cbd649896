// What the catalog adds to models that are installed: tuning, capabilities, licence.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "service/model_entry.h"
#include "service/test_service.h"

namespace gezel::service {
namespace {

using models::testing::tiny_model;
using ::testing::ElementsAre;

class CatalogEntry : public testing::ServiceTest {
 protected:
  void offer(const std::string& id, std::string_view more) {
    const std::string folder = fmt::format("catalog/chat-models/{}/{}", id.substr(0, 2), id);
    home.write(folder + "/manifest.json",
               fmt::format(R"({{"id":"{0}","name":"Model {0}","description":"A model.",)"
                           R"("maintainer":{{"name":"Org"}},"parameterSize":"1B","supportsTools":true{1}}})",
                           id, more));
    home.write(
        folder + "/versions/1.0.0/manifest.json",
        fmt::format(R"({{"version":"1.0.0","releasedAt":"2026-08-01T00:00:00Z","approxSizeBytes":1000,)"
                    R"("llamaCpp":{{"huggingfaceRepo":"org/model","filename":"m.gguf","sha256":"{}",)"
                    R"("approxSizeBytes":1000}}}})",
                    std::string(64, 'a')));
  }
  json::value profile(const std::string& id) { return wait(service->retrieve_model(id))->at("profile"); }
  json::value entry(std::string_view id) {
    const auto list = wait(service->list_models());
    for (const auto& each : list.at("data").as_array()) {
      if (each.at("id").as_string() == id) return each;
    }
    return nullptr;
  }
};

TEST_F(CatalogEntry, ItsTuningLiesBelowShippedProfilesAndTheUsersAboveThem) {
  // The shipped profile of this family has top_k 64, top_p 0.95 and temperature 1.
  ASSERT_TRUE(import(files.write("g.gguf", tiny_model("gemma3")), "copy", "tuned-q4"));
  offer(
      "tuned-q4",
      R"(,"tuning":{"sampling":{"topK":7,"minP":0.125,"maxTokens":300},"reasoning":{"thinkingBudget":64}})");
  start();
  EXPECT_EQ(profile("tuned-q4"), parse_json(R"({"name":"gemma-3","user":false,"catalog":"tuned-q4",
                           "sampling":{"temperature":1.0,"top_p":0.95,"min_p":0.125,"top_k":64},
                           "max_tokens":300,"thinking_budget":64})")
                                     .value());
  home.write("profiles/mine.json", R"({"name":"mine","match":{"model":["tuned-*"]},"max_tokens":5})");
  EXPECT_EQ(profile("tuned-q4").at("max_tokens").to_number<int>(), 5);
}

TEST_F(CatalogEntry, AModelUnderAnOldNameIsTunedToo) {
  install("old-name");
  offer("new-q4", R"(,"aliases":["old-name"],"tuning":{"sampling":{"topK":7}})");
  start();
  EXPECT_EQ(profile("old-name"),
            parse_json(R"({"name":null,"user":false,"catalog":"new-q4","sampling":{"top_k":7}})").value());
  EXPECT_TRUE(entry("llama-cpp:old-name").at("capabilities").at("tools").as_bool());
}

TEST_F(CatalogEntry, AModelWithoutAnEntryIsTunedByNobody) {
  install("mine");
  start();
  EXPECT_EQ(profile("mine"), parse_json(R"({"name":null,"user":false})").value());
}

TEST_F(CatalogEntry, EveryRowSaysItsLicence) {
  offer("paid-q4",
        R"(,"license":"Some License","licenseClass":"commercial-restricted","licenseShortName":"Some",)"
        R"("upstream":"https://example.org/m","supportsReasoning":true)");
  install("paid-q4");
  offer("free-q4", R"(,"license":"Apache-2.0","licenseClass":"open","licenseUrl":"https://example.org/l")");
  install("mine");
  start();
  EXPECT_EQ(entry("llama-cpp:paid-q4").at("license"),
            parse_json(R"({"name":"Some License","shortName":"Some","class":"commercial-restricted",
                           "url":"https://example.org/m"})")
                .value());
  EXPECT_TRUE(entry("llama-cpp:paid-q4").at("supports_reasoning").as_bool());
  EXPECT_EQ(entry("llama-cpp:free-q4").at("license").at("url").as_string(), "https://example.org/l");
  const auto unknown =
      parse_json(R"({"name":"unknown","shortName":"unknown","class":"unknown","url":null})").value();
  EXPECT_EQ(entry("llama-cpp:mine").at("license"), unknown);
  EXPECT_EQ(wait(service->retrieve_model("paid-q4"))->at("license").at("shortName").as_string(), "Some");
  EXPECT_EQ(wait(service->retrieve_model("free-q4"))->at("license").at("class").as_string(), "open");
  for (const auto& row : wait(service->installs().installed()).at("models").as_array())
    EXPECT_TRUE(row.as_object().contains("license"));
}

TEST_F(CatalogEntry, ADownloadableModelWasCreatedWhenItsVersionWasReleased) {
  offer("free-q4", "");
  start();
  EXPECT_EQ(entry("llama-cpp:free-q4").at("created").to_number<std::int64_t>(),
            unix_seconds_of("2026-08-01T00:00:00Z"));
}

TEST_F(CatalogEntry, FoldersOfTheUsersOwnAreUsedWhereTheyLieAndNotShownTwice) {
  const fs::path file = files.write("own/m.gguf", tiny_model());
  const auto row = [&](const std::string& source, const std::string& id) {
    models::DiscoveredModel out;
    out.source = source;
    out.paths = {file};
    out.suggested_id = id;
    out.name = "Found";
    out.importable = true;
    return out;
  };
  installs->discover = [&](const std::stop_token&) {
    return std::vector{row("huggingface", "local-a"), row("user", "local-b")};
  };
  start();
  settle();
  EXPECT_THAT(listed(), ElementsAre("discovered:huggingface/local-a"));
}

}  // namespace
}  // namespace gezel::service
