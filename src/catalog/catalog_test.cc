#include "catalog/catalog.h"

#include <gmock/gmock.h>

#include "base/test_folder.h"
#include "base/test_unprivileged.h"
#include "catalog/backend.h"
#include "catalog/test_items.h"
#include "catalog/tree.h"

namespace gezel::catalog {
namespace {

using ::testing::ElementsAre;
using testing::entry_json;
using ::testing::HasSubstr;
using testing::identity_json;
using testing::packed_json;
using testing::version_json;

class Sources : public ::testing::Test {
 protected:
  void drop(std::string_view id, std::string_view version, std::string_view more = {}) {
    const std::string folder = fmt::format("chat-models/{}/{}", id.substr(0, 2), id);
    home.write(folder + "/manifest.json", identity_json(id, more));
    home.write(fmt::format("{}/versions/{}/manifest.json", folder, version), version_json(version));
  }
  std::vector<std::string> listed(const Catalog& catalog) {
    std::vector<std::string> out;
    const auto list = catalog.list(Kind::chat_model);
    EXPECT_TRUE(list) << list.error().message;
    if (!list) return out;
    for (const auto& each : *list)
      out.push_back(each.item->id + " " + each.version->version.text() + " " + each.source);
    return out;
  }

  TestFolder home;
  const std::string packed =
      packed_json({entry_json("aa", version_json("1.0.0")), entry_json("bb", version_json("1.0.0"))});
  const BundledFile files[1] = {{"chat.json", packed}};
  Catalog catalog{{.user_folder = home.path(), .override_folder = {}, .service = {}, .bundled = files}};
};

TEST_F(Sources, WithoutAUserFolderWhatIsBuiltInIsThere) {
  Catalog other(
      {.user_folder = home.path() / "none", .override_folder = {}, .service = {}, .bundled = files});
  EXPECT_THAT(listed(other), ElementsAre("aa 1.0.0 bundled", "bb 1.0.0 bundled"));
}

TEST_F(Sources, UserItemsShadowAndAppearWithoutARestart) {
  drop("bb", "7.0.0");
  EXPECT_THAT(listed(catalog), ElementsAre("aa 1.0.0 bundled", "bb 7.0.0 user"));
  drop("cc", "1.0.0", R"("name":"A first one")");
  EXPECT_THAT(listed(catalog), ElementsAre("cc 1.0.0 user", "aa 1.0.0 bundled", "bb 7.0.0 user"));
  EXPECT_EQ(catalog.get(Kind::chat_model, "bb")->source, "user");
}

TEST_F(Sources, AnOverrideFolderReplacesWhatIsBuiltIn) {
  drop("bb", "7.0.0");
  Catalog other({.user_folder = {}, .override_folder = home.path(), .service = {}, .bundled = files});
  EXPECT_THAT(listed(other), ElementsAre("bb 7.0.0 override"));
  EXPECT_EQ(other.content_version(), "");
}

TEST_F(Sources, ANameThatIsNotTheIdSkipsTheItem) {
  home.write("chat-models/cc/cc/manifest.json", identity_json("dd"));
  home.write("chat-models/cc/cc/versions/1.0.0/manifest.json", version_json("1.0.0"));
  drop("ee", "1.0.0");
  fs::rename(home.path() / "chat-models/ee/ee/versions/1.0.0",
             home.path() / "chat-models/ee/ee/versions/1.0.1");
  const auto tree = read_tree(home.path(), Kind::chat_model);
  ASSERT_TRUE(tree);
  EXPECT_TRUE(tree->items.empty());
  ASSERT_EQ(tree->problems.size(), 2U);
  EXPECT_THAT(tree->problems[0].message, HasSubstr("it must be the folder's name, \"cc\""));
  EXPECT_THAT(tree->problems[1].message, HasSubstr("it must be the folder's name, \"1.0.1\""));
}

TEST_F(Sources, AnIndexIsUsedWhenItIsSound) {
  drop("cc", "1.0.0");
  auto manifest = parse_json(identity_json("dd")).value().as_object();
  for (const auto& [name, value] : parse_json(version_json("3.0.0")).value().as_object())
    manifest[name] = value;
  const std::string entry = to_json(json::object{{"manifest", manifest}});
  const std::string good = packed_json({entry});
  home.write("chat-models/index.json", good);
  EXPECT_EQ(read_tree(home.path(), Kind::chat_model)->items.at(0)->id, "dd");
  for (const std::string& bad : {std::string("{"), packed_json({entry}, "image-model")}) {
    home.write("chat-models/index.json", bad);
    EXPECT_EQ(read_tree(home.path(), Kind::chat_model)->items.at(0)->id, "cc");
  }
}

TEST_F(Sources, AnUnreadableFolderIsAnErrorAndNoEmptyCatalog) {
  // A file where a folder belongs counts as absent; a folder that may not be entered does not.
  home.write("chat-models", "x");
  EXPECT_TRUE(read_tree(home.path(), Kind::chat_model)->items.empty());
  fs::remove(home.path() / "chat-models");
  drop("cc", "1.0.0");
  const auto list = [&] {
    const Unprivileged user(home.path());
    fs::permissions(home.path() / "chat-models", fs::perms::none);
    auto listed_now = catalog.list(Kind::chat_model);
    fs::permissions(home.path() / "chat-models", fs::perms::owner_all);
    return listed_now;
  }();
  ASSERT_FALSE(list);
  EXPECT_EQ(list.error().code, "catalog_unreadable");
}

TEST_F(Sources, ALoopOfLinksIsAnErrorToo) {
  fs::create_directory_symlink(home.path() / "chat-models", home.path() / "chat-models");
  const auto list = catalog.list(Kind::chat_model);
  ASSERT_FALSE(list);
  EXPECT_EQ(list.error().code, "catalog_unreadable");
}

TEST_F(Sources, UnknownIdsAndVersionsAreErrorsThatSaySo) {
  for (const char* id : {"nope", "../aa", "", "AA"})
    EXPECT_EQ(catalog.get(Kind::chat_model, id).error().code, "unknown_model");
  const auto version = catalog.get(Kind::chat_model, "aa", "9.9.9");
  ASSERT_FALSE(version);
  EXPECT_EQ(version.error().code, "unknown_version");
  EXPECT_THAT(version.error().message, HasSubstr("its latest is 1.0.0"));
}

TEST(Qualified, SplitsAtTheFirstColon) {
  const auto id = parse_qualified_id("llama-cpp:gemma4:e2b");
  ASSERT_TRUE(id);
  EXPECT_EQ(id->backend, Backend::llama_cpp);
  EXPECT_EQ(id->id, "gemma4:e2b");
  for (const char* text : {"", "qwen3.5-9b-q4", "ollama:x", "llama-cpp:", ":x"})
    EXPECT_FALSE(parse_qualified_id(text)) << text;
}

TEST(ContextFloor, IsLowerWhereMemoryIsShort) {
  EXPECT_EQ(context_floor({.total_ram = 16 * kGiB}), 32768);
  EXPECT_EQ(context_floor({.total_ram = 17 * kGiB}), 65536);
  EXPECT_EQ(context_floor({.total_ram = 64 * kGiB, .discrete_vram = 8 * kGiB}), 32768);
  EXPECT_EQ(context_floor({.total_ram = 8 * kGiB, .discrete_vram = 24 * kGiB}), 65536);
}

}  // namespace
}  // namespace gezel::catalog
