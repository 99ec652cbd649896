// Updates of the catalog through the service: the switch, the schedule, and who asks at the same time.
#include "service/catalog_updates.h"

#include <gmock/gmock.h>

#include "catalog/test_items.h"
#include "service/test_service.h"

namespace gezel::service {
namespace {

using catalog::testing::entry_json;
using catalog::testing::packed_json;
using catalog::testing::version_json;
using models::testing::tiny_model;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class CatalogUpdatesService : public testing::ServiceTest {
 protected:
  CatalogUpdatesService() {
    installs->catalog = std::make_shared<const catalog::Catalog>(
        catalog::CatalogOptions{.user_folder = home.path() / "catalog",
                                .live_folder = home.path() / "catalog-live",
                                .bundled = bundled});
    installs->documents = std::shared_ptr<const downloads::Transfers>(std::shared_ptr<void>(), &transfers);
    installs->timers = timers;
    options.catalog_updates = {.enabled = true, .url = "https://catalog.test/pointer.json"};
    options.first_run_completed = true;
    options.pins.provider = "llama-cpp";
    offer("1.0.1");
  }
  void offer(std::string_view version) {
    const std::string index =
        packed_json({entry_json("aa", version_json("1.2.0")), entry_json("bb", version_json("1.2.0"))});
    client.files["chat.json"] = index;
    client.files["pointer.json"] = fmt::format(
        R"({{"schemaVersion":1,"contentVersion":"{}","publishedAt":"","baseUrl":"https://catalog.test",)"
        R"("kinds":{{"chat-model":{{"count":2,"indexPath":"chat.json","sha256":"{}"}}}}}})",
        version, sha256_hex(index));
  }
  json::value status() { return wait(service->catalog_updates()); }
  std::string outcome() { return std::string(wait(service->check_catalog()).at("outcome").as_string()); }
  void pass(Millis time) {
    timers->advance(time, [this] { settle(); });
  }

  const std::string packed = packed_json({entry_json("aa", version_json("1.0.0"))});
  const catalog::BundledFile bundled[1] = {{"chat.json", packed}};
  std::shared_ptr<engine::ManualTimers> timers = std::make_shared<engine::ManualTimers>(clock);
};

constexpr Millis kMinute{60'000}, kHour{3'600'000};

TEST_F(CatalogUpdatesService, ACheckBringsNewModelsIntoTheList) {
  start();
  EXPECT_THAT(listed(), ElementsAre("llama-cpp:aa"));
  EXPECT_EQ(outcome(), "updated");
  clock.advance(Millis(2'000));
  listed();  // asks for a new look
  settle();
  EXPECT_THAT(listed(), ElementsAre("llama-cpp:aa", "llama-cpp:bb"));
  const auto now = status();
  EXPECT_EQ(now.at("mode").as_string(), "live");
  EXPECT_EQ(now.at("bundledVersion").as_string(), "1.0.0");
  EXPECT_EQ(now.at("activeVersion").as_string(), "1.0.1");
  EXPECT_EQ(now.at("lastCheck").at("outcome").as_string(), "updated");
  EXPECT_FALSE(now.at("updateInProgress").as_bool());
}

TEST_F(CatalogUpdatesService, AreOffUnlessSomebodySwitchedThemOn) {
  options.catalog_updates = {};
  start();
  EXPECT_EQ(outcome(), "blocked");
  pass(48 * kHour);
  EXPECT_THAT(client.asked, IsEmpty());
  EXPECT_EQ(status().at("mode").as_string(), "bundled");
}

TEST_F(CatalogUpdatesService, AreCheckedAQuarterOfAnHourAfterTheStartAndThenEveryDay) {
  start();
  settle();
  pass(14 * kMinute);
  EXPECT_THAT(client.asked, IsEmpty());
  pass(2 * kMinute);
  EXPECT_THAT(client.asked, ElementsAre("pointer.json", "chat.json"));
  pass(23 * kHour);
  EXPECT_EQ(client.asked.size(), 2U);
  pass(2 * kHour);
  EXPECT_EQ(client.asked.size(), 3U);
}

TEST_F(CatalogUpdatesService, ACheckOfTheLastSixHoursDoesInsteadOfAScheduledOne) {
  home.write("catalog-updates.json",
             fmt::format(R"({{"outcome":"up-to-date","at":"{}"}})", iso_time(clock.wall_now())));
  start();
  settle();
  pass(kHour);
  EXPECT_THAT(client.asked, IsEmpty());
}

TEST_F(CatalogUpdatesService, SwitchedOffTheBuiltInContentCountsAtOnceAndTheRestIsDeleted) {
  start();
  ASSERT_EQ(outcome(), "updated");
  const auto set = wait(service->set_catalog_updates(false, std::nullopt));
  ASSERT_TRUE(set) << set.error().message;
  EXPECT_EQ(set->at("mode").as_string(), "bundled");
  EXPECT_FALSE(fs::exists(home.path() / "catalog-live"));
  EXPECT_FALSE(read_config(home.path()).config.catalog_updates.enabled);
  EXPECT_EQ(outcome(), "blocked");
}

TEST_F(CatalogUpdatesService, SwitchingOnNeedsAnAddressThatCanBeAsked) {
  options.catalog_updates = {};
  start();
  for (const auto& url :
       {std::optional<std::string>(), std::optional<std::string>("http://catalog.test/p")}) {
    const auto set = wait(service->set_catalog_updates(true, url));
    ASSERT_FALSE(set);
    EXPECT_EQ(set.error().param, "url");
  }
  ASSERT_TRUE(wait(service->set_catalog_updates(true, "https://catalog.test/pointer.json")));
  EXPECT_TRUE(read_config(home.path()).config.catalog_updates.enabled);
  EXPECT_EQ(outcome(), "updated");
}

TEST_F(CatalogUpdatesService, AFailureIsToldAndLeavesWhatCounted) {
  client.files.erase("pointer.json");
  start();
  const auto report = wait(service->check_catalog());
  EXPECT_EQ(report.at("outcome").as_string(), "error");
  EXPECT_THAT(std::string(report.at("message").as_string()), HasSubstr("404"));
  EXPECT_EQ(status().at("mode").as_string(), "bundled");
}

TEST_F(CatalogUpdatesService, AFolderThatReplacesTheCatalogBlocksThem) {
  options.installs.catalog_override = home.path() / "other";
  start();
  EXPECT_EQ(outcome(), "blocked");
}

TEST_F(CatalogUpdatesService, TheCatalogCanBeLookedInto) {
  start();
  const auto items = wait(service->catalog("chat-models", ""));
  ASSERT_TRUE(items);
  EXPECT_EQ(items->at("items").at(0).at("sourceId").as_string(), "bundled");
  EXPECT_EQ(items->at("items").at(0).at("kind").as_string(), "chat-model");
  const auto item = wait(service->catalog("chat-models/aa", "1.0.0"));
  ASSERT_TRUE(item) << item.error().message;
  EXPECT_EQ(item->at("manifest").at("version").as_string(), "1.0.0");
  const auto versions = wait(service->catalog("chat-models/aa/versions", ""));
  EXPECT_EQ(versions->at("versions").at(0).at("version").as_string(), "1.0.0");
  EXPECT_EQ(wait(service->catalog("songs", "")).error().code, "unknown_kind");
  EXPECT_EQ(wait(service->catalog("chat-models/zz", "")).error().code, "unknown_model");
  EXPECT_EQ(wait(service->catalog("chat-models/aa", "9.0.0")).error().status, 404);
}

TEST_F(CatalogUpdatesService, AChangeThatCannotBeKeptHasNoEffect) {
  start();
  ASSERT_EQ(outcome(), "updated");
  home.write("config.json", "[");
  ASSERT_FALSE(wait(service->set_catalog_updates(false, std::nullopt)));
  EXPECT_TRUE(status().at("enabled").as_bool());
  EXPECT_EQ(status().at("mode").as_string(), "live");
}

}  // namespace
}  // namespace gezel::service
