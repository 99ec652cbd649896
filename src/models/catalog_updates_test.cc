// Updates of the catalog from a real server on this machine.
#include "models/catalog_updates.h"

#include <gmock/gmock.h>

#include "base/ids.h"
#include "base/test_folder.h"
#include "catalog/test_items.h"
#include "downloads/test_server.h"
#include "downloads/timed_client.h"

namespace gezel::models {
namespace {

using catalog::Kind;
using catalog::testing::entry_json;
using catalog::testing::packed_json;
using catalog::testing::version_json;
using downloads::testing::Reply;
using downloads::testing::ServedRequest;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class CatalogUpdate : public ::testing::Test {
 protected:
  UpdateReport update(std::string path = "/pointer.json") {
    return update_catalog({.url = server.url(path),
                           .live_folder = folder.path() / "live",
                           .bundled_version = catalog.content_version(),
                           .may_activate = [this] { return may_activate; }},
                          catalog, transfers, cancellation);
  }
  static std::string items(std::initializer_list<std::string> ids) {
    std::string entries;
    for (const auto& id : ids)
      entries += (entries.empty() ? "" : ",") + entry_json(id, version_json("1.2.0"));
    return fmt::format(
        R"({{"schemaVersion":1,"kind":"chat-model","contentVersion":"1.0.1","count":{},"entries":[{}]}})",
        ids.size(), entries);
  }
  void offer(const std::string& version, const std::string& index, std::size_t count,
             std::string digest = {}) {
    files["/" + version + "/chat.json"] = index;
    files["/pointer.json"] = fmt::format(
        R"({{"schemaVersion":1,"contentVersion":"{0}","publishedAt":"2026-09-01T00:00:00Z",)"
        R"("baseUrl":"{1}","kinds":{{"chat-model":{{"count":{2},"indexPath":"{0}/chat.json","sha256":"{3}"}}}}}})",
        version, base.empty() ? server.url("") : base, count, digest.empty() ? sha256_hex(index) : digest);
  }
  std::string version_of(std::string_view id) {
    const auto item = catalog.get(Kind::chat_model, id);
    return item ? item->source + " " + item->version->version.text() : item.error().code;
  }
  std::size_t asked(std::string_view path) const {
    const auto all = server.requests();
    return static_cast<std::size_t>(
        std::ranges::count_if(all, [&](const ServedRequest& request) { return request.target == path; }));
  }

  std::map<std::string, std::string> files;
  std::function<void(const std::string&)> before;  // a request is answered
  std::string base;
  bool may_activate = true;
  downloads::testing::TestServer server{[this](const ServedRequest& request) -> Reply {
    if (before) before(request.target);
    const auto found = files.find(request.target);
    if (found == files.end()) return {.status = 404};
    return downloads::testing::serve(found->second, request);
  }};
  const std::string packed =
      packed_json({entry_json("aa", version_json("1.0.0")), entry_json("bb", version_json("1.0.0"))});
  const catalog::BundledFile bundled[1] = {{"chat.json", packed}};
  TestFolder folder;
  catalog::Catalog catalog{{.live_folder = folder.path() / "live", .bundled = bundled}};
  downloads::testing::SharedClock clock;
  downloads::testing::FakeWaiter waiter{clock};
  downloads::testing::MiddleEntropy entropy;
  downloads::CurlClient network{{.user_agent = "test"}, clock};
  downloads::TimedClient timed{network, clock, Millis(30'000)};
  downloads::Transfers transfers{timed, waiter, entropy};
  downloads::Cancellation cancellation;
};

TEST_F(CatalogUpdate, NewerContentCountsFromThenOn) {
  offer("1.0.1", items({"aa", "bb", "cc"}), 3);
  const auto report = update();
  EXPECT_EQ(report.outcome, UpdateOutcome::updated) << report.message;
  EXPECT_EQ(report.version, "1.0.1");
  EXPECT_EQ(version_of("aa"), "live 1.2.0");
  EXPECT_EQ(version_of("cc"), "live 1.2.0");
  EXPECT_EQ(update().outcome, UpdateOutcome::up_to_date);
}

TEST_F(CatalogUpdate, AnIndexThatIsThereAlreadyIsNotFetchedAgain) {
  const std::string index = items({"aa", "bb"});
  offer("1.0.1", index, 2);
  ASSERT_EQ(update().outcome, UpdateOutcome::updated);
  offer("1.0.2", index, 2);
  ASSERT_EQ(update().outcome, UpdateOutcome::updated);
  EXPECT_EQ(asked("/1.0.2/chat.json"), 0U);
  EXPECT_EQ(catalog.content().version, "1.0.2");
  EXPECT_FALSE(fs::exists(folder.path() / "live/1.0.1"));
}

TEST_F(CatalogUpdate, ContentThatLosesAModelStaysOutAndTheModelIsNamed) {
  offer("1.0.1", items({"aa", "cc"}), 2);
  const auto report = update();
  EXPECT_EQ(report.outcome, UpdateOutcome::incompatible);
  EXPECT_THAT(report.regressions, ElementsAre(catalog::ItemName{Kind::chat_model, "bb"}));
  EXPECT_EQ(version_of("aa"), "bundled 1.0.0");
}

TEST_F(CatalogUpdate, ContentForAnotherMinorVersionIsIncompatible) {
  offer("1.1.0", items({"aa", "bb"}), 2);
  EXPECT_EQ(update().outcome, UpdateOutcome::incompatible);
  EXPECT_EQ(asked("/1.1.0/chat.json"), 0U);
}

TEST_F(CatalogUpdate, AnotherDigestIsAnErrorAndNothingChanges) {
  offer("1.0.1", items({"aa", "bb"}), 2, std::string(64, 'a'));
  const auto report = update();
  EXPECT_EQ(report.outcome, UpdateOutcome::error);
  EXPECT_THAT(report.message, AllOf(HasSubstr("SHA-256"), HasSubstr(std::string(64, 'a'))));
  EXPECT_EQ(version_of("aa"), "bundled 1.0.0");
}

TEST_F(CatalogUpdate, ACountThatIsNotTheIndexesIsAnError) {
  offer("1.0.1", items({"aa", "bb"}), 3);
  EXPECT_THAT(update().message, HasSubstr("has 2 items; the pointer document says 3"));
}

TEST_F(CatalogUpdate, AVersionThatIsGoneMeansThatThePointerIsReadAgain) {
  offer("1.0.1", items({"aa", "bb"}), 2);
  files.erase("/1.0.1/chat.json");
  int pointers = 0;
  before = [&](const std::string& target) {
    if (target == "/pointer.json" && ++pointers == 2) offer("1.0.2", items({"aa", "bb"}), 2);
  };
  const auto report = update();
  EXPECT_EQ(report.outcome, UpdateOutcome::updated) << report.message;
  EXPECT_EQ(report.version, "1.0.2");
}

TEST_F(CatalogUpdate, ADocumentThatIsTooLargeIsNotRead) {
  files["/pointer.json"] = std::string(catalog::kMaxDocumentBytes + 1, ' ');
  const auto report = update();
  EXPECT_EQ(report.outcome, UpdateOutcome::error);
  EXPECT_THAT(report.message, HasSubstr(std::to_string(catalog::kMaxDocumentBytes)));
}

TEST_F(CatalogUpdate, AHostThatFailsIsAskedThreeTimes) {
  files["/pointer.json"] = "";
  const auto report = update("/nothing");
  EXPECT_EQ(report.outcome, UpdateOutcome::error);
  EXPECT_EQ(asked("/nothing"), 1U) << "what is not there is not asked for again";
  const auto refused = update_catalog({.url = "http://127.0.0.1:1/p",
                                       .live_folder = folder.path() / "live",
                                       .bundled_version = "1.0.0",
                                       .may_activate = [] { return true; }},
                                      catalog, transfers, cancellation);
  EXPECT_EQ(refused.outcome, UpdateOutcome::error);
  EXPECT_THAT(waiter.delays, SizeIs(2));
}

TEST_F(CatalogUpdate, AnAnswerThatTricklesIsGivenUp) {
  offer("1.0.1", items({"aa", "bb"}), 2);
  before = [&](const std::string&) { clock.advance(Millis(31'000)); };
  EXPECT_THAT(update().message, HasSubstr("not complete after 30 s"));
}

TEST_F(CatalogUpdate, ABaseWithAnotherSchemeIsRefused) {
  base = "file:///etc";
  offer("1.0.1", items({"aa", "bb"}), 2);
  EXPECT_THAT(update().message, HasSubstr("baseUrl"));
}

TEST_F(CatalogUpdate, WhatWasSwitchedOffMeanwhileIsNotTakenOver) {
  offer("1.0.1", items({"aa", "bb"}), 2);
  may_activate = false;
  EXPECT_EQ(update().outcome, UpdateOutcome::blocked);
  EXPECT_EQ(version_of("aa"), "bundled 1.0.0");
}

TEST_F(CatalogUpdate, ForgettingGoesBackToWhatIsBuiltIn) {
  offer("1.0.1", items({"aa", "bb"}), 2);
  ASSERT_EQ(update().outcome, UpdateOutcome::updated);
  ASSERT_TRUE(forget_updates(folder.path() / "live"));
  EXPECT_EQ(version_of("aa"), "bundled 1.0.0");
  EXPECT_TRUE(forget_updates(folder.path() / "live")) << "nothing to forget is no error";
}

}  // namespace
}  // namespace gezel::models
