#include "catalog/live.h"

#include <gmock/gmock.h>

#include "base/test_folder.h"
#include "catalog/catalog.h"
#include "catalog/test_items.h"

namespace gezel::catalog {
namespace {

using ::testing::ElementsAre;
using testing::entry_json;
using ::testing::HasSubstr;
using testing::identity_json;
using ::testing::IsEmpty;
using testing::packed_json;
using testing::sha;
using testing::version_json;

std::string pointer_json(std::string_view version = "1.0.1", std::string_view more = {}) {
  return fmt::format(
      R"({{"schemaVersion":1,"contentVersion":"{}","publishedAt":"2026-09-01T00:00:00Z",)"
      R"("baseUrl":"https://example.org/c/","kinds":{{"chat-model":{{"count":2,"indexPath":"v/chat.json",)"
      R"("sha256":"{}"}}}}{}}})",
      version, sha('b'), more);
}

std::string index_json(std::initializer_list<std::string> ids, std::string_view version = "1.1.0") {
  std::string entries;
  for (const auto& id : ids) {
    std::string manifest = identity_json(id);
    manifest.pop_back();
    entries += fmt::format("{}{{\"manifest\":{},{}}}", entries.empty() ? "" : ",", manifest,
                           version_json(version).substr(1));
  }
  return fmt::format(R"({{"schemaVersion":1,"kind":"chat-model","count":{},"entries":[{}]}})", ids.size(),
                     entries);
}

TEST(Pointer, IsReadWithItsIndexes) {
  const auto pointer = parse_pointer(pointer_json());
  ASSERT_TRUE(pointer) << pointer.error().message;
  EXPECT_EQ(pointer->version.text(), "1.0.1");
  EXPECT_EQ(pointer->base_url, "https://example.org/c");
  EXPECT_EQ(pointer->kinds.at(Kind::chat_model).path, "v/chat.json");
  EXPECT_EQ(pointer->kinds.at(Kind::chat_model).count, 2U);
}

TEST(Pointer, WhatIsWrongIsNamed) {
  const std::pair<std::string, std::string_view> cases[] = {
      {"x", ""},
      {R"({"schemaVersion":2})", "schemaVersion"},
      {pointer_json("one"), "contentVersion"},
      {R"({"schemaVersion":1,"contentVersion":"1.0.1"})", "baseUrl"},
      {R"({"schemaVersion":1,"contentVersion":"1.0.1","baseUrl":"https://a.b","kinds":{}})", "kinds"},
      {R"({"schemaVersion":1,"contentVersion":"1.0.1","baseUrl":"https://a.b","kinds":{"chat-model":{"count":1,"indexPath":"../x","sha256":"a"}}})",
       "kinds.chat-model.indexPath"},
      {R"({"schemaVersion":1,"contentVersion":"1.0.1","baseUrl":"https://a.b","kinds":{"chat-model":{"count":1,"indexPath":"x","sha256":"a"}}})",
       "kinds.chat-model.sha256"},
  };
  for (const auto& [text, field] : cases) {
    const auto pointer = parse_pointer(text);
    ASSERT_FALSE(pointer) << text;
    EXPECT_EQ(pointer.error().code, "catalog_invalid");
    EXPECT_EQ(pointer.error().param, field) << pointer.error().message;
  }
}

TEST(LiveContent, OnlyTheSameMinorAndNewerIsEligible) {
  EXPECT_TRUE(is_eligible(*SemVer::parse("1.0.1"), "1.0.0"));
  EXPECT_TRUE(is_eligible(*SemVer::parse("1.0.12"), "1.0.2"));
  for (const char* version : {"1.0.0", "1.1.0", "2.0.1", "1.0.0-rc.1", "1.10.1"})
    EXPECT_FALSE(is_eligible(*SemVer::parse(version), "1.0.0")) << version;
}

TEST(LiveContent, BothFormsAreRead) {
  EXPECT_EQ(parse_content(index_json({"aa", "bb"}), Kind::chat_model)->items.size(), 2U);
  EXPECT_EQ(
      parse_content(packed_json({entry_json("aa", version_json("1.0.0"))}), Kind::chat_model)->items.size(),
      1U);
  EXPECT_FALSE(parse_content(index_json({"aa"}), Kind::image_model));
}

class LiveCatalog : public ::testing::Test {
 protected:
  void put(std::string_view version, const std::string& text, std::string digest = {}) {
    const fs::path file = folder.write(fs::path("live") / version / "chat-models/index.json", text);
    if (digest.empty()) digest = sha256_file(file).value();
    folder.write("live/current.json",
                 fmt::format(R"({{"contentVersion":"{}","kinds":{{"chat-model":{{"sha256":"{}"}}}}}})",
                             version, digest));
  }
  std::vector<std::string> ids(const Catalog& catalog) {
    std::vector<std::string> out;
    const auto items = catalog.list(Kind::chat_model).value();
    for (const auto& each : items) out.push_back(each.source + " " + each.item->id);
    return out;
  }
  const std::string packed =
      packed_json({entry_json("aa", version_json("1.0.0")), entry_json("bb", version_json("1.0.0"))});
  const BundledFile files[1] = {{"chat.json", packed}};
  TestFolder folder;
  Catalog catalog{
      {.user_folder = folder.path() / "own", .live_folder = folder.path() / "live", .bundled = files}};
};

TEST_F(LiveCatalog, AnUpdateShadowsWhatIsBuiltInItemByItemAndIsSeenAtOnce) {
  EXPECT_THAT(ids(catalog), ElementsAre("bundled aa", "bundled bb"));
  put("1.0.1", index_json({"aa", "cc"}));
  EXPECT_THAT(ids(catalog), ElementsAre("live aa", "bundled bb", "live cc"));
  EXPECT_EQ(catalog.get(Kind::chat_model, "aa")->version->version.text(), "1.1.0");
  EXPECT_EQ(catalog.get(Kind::chat_model, "aa", "1.0.0")->source, "bundled")
      << "an older version still resolves";
  EXPECT_EQ(catalog.content().source, "live");
  EXPECT_EQ(catalog.content().version, "1.0.1");
  fs::remove_all(folder.path() / "live");
  EXPECT_THAT(ids(catalog), ElementsAre("bundled aa", "bundled bb"));
}

TEST_F(LiveCatalog, AFileWithAnotherDigestIsNotUsed) {
  put("1.0.1", index_json({"aa", "cc"}), sha('d'));
  EXPECT_THAT(ids(catalog), ElementsAre("bundled aa", "bundled bb"));
  EXPECT_EQ(catalog.content().source, "bundled");
}

TEST_F(LiveCatalog, ContentThatIsOlderThanTheProgramIsNotUsed) {
  put("1.0.0", index_json({"cc"}));
  EXPECT_THAT(ids(catalog), ElementsAre("bundled aa", "bundled bb"));
}

TEST_F(LiveCatalog, WhatWouldNotResolveAnyMoreIsNamed) {
  const auto now = catalog.content().items;
  const auto next = parse_content(index_json({"bb", "cc"}), Kind::chat_model)->items;
  EXPECT_THAT(find_regressions(now, next, {}), ElementsAre(ItemName{Kind::chat_model, "aa"}));
  EXPECT_THAT(find_regressions(next, next, {}), IsEmpty());
}

}  // namespace
}  // namespace gezel::catalog
