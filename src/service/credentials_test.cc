#include "service/credentials.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/test_folder.h"
#include "models/test_home.h"
#include "service/token_file.h"

namespace gezel::service {
namespace {

using models::testing::CountingEntropy;
using ::testing::HasSubstr;

constexpr std::string_view kGood =
    R"({"version":1,"tokens":[{"appId":"default","appName":"API key","scopes":["openai"],"token":"kept","createdAt":"x"}]})";

class Keys : public ::testing::Test {
 protected:
  std::unique_ptr<Credentials> open() {
    auto opened = Credentials::open(home.path(), clock, entropy);
    EXPECT_TRUE(opened) << opened.error().message;
    return opened ? std::move(*opened) : nullptr;
  }
  std::string text(std::string_view name) { return read_file(home.path() / name).value_or(""); }
  unsigned mode(std::string_view name) {
    struct stat info{};
    ::stat((home.path() / name).c_str(), &info);
    return info.st_mode & 0777;
  }

  TestFolder home;
  ManualClock clock;
  CountingEntropy entropy;
};

TEST_F(Keys, TheFirstStartCreatesAnApiKeyThatSurvivesRestarts) {
  const std::string key = open()->api_key();
  EXPECT_EQ(key.size(), 43U);
  EXPECT_EQ(open()->api_key(), key);
  EXPECT_EQ(mode("tokens.json"), 0600U);
  EXPECT_EQ(text("tokens.json"), text("tokens.json.bak"));
}

TEST_F(Keys, RootAndClientTokensAreFreshAtEveryStartAndNeverStored) {
  const auto first = open();
  const auto second = open();
  EXPECT_EQ(first->root_token().size(), 32U);
  EXPECT_EQ(first->client_token().size(), 32U);
  EXPECT_NE(first->root_token(), second->root_token());
  EXPECT_NE(first->client_token(), second->client_token());
  EXPECT_FALSE(second->authenticate(first->root_token()));
  EXPECT_THAT(text("tokens.json"), ::testing::Not(HasSubstr(second->root_token())));
  EXPECT_THAT(text("tokens.json"), ::testing::Not(HasSubstr(second->client_token())));
}

TEST_F(Keys, EachTokenOpensItsScopesOnly) {
  const auto keys = open();
  const auto root = keys->authenticate(keys->root_token());
  ASSERT_TRUE(root);
  EXPECT_TRUE(root->allows("openai") && root->allows("ui") && root->allows("anything"));
  const auto client = keys->authenticate(keys->client_token());
  ASSERT_TRUE(client);
  EXPECT_TRUE(client->allows("ui") && client->allows("openai"));
  EXPECT_FALSE(client->allows("cli"));
  const auto key = keys->authenticate(keys->api_key());
  ASSERT_TRUE(key);
  EXPECT_EQ(key->app_id, "default");
  EXPECT_TRUE(key->allows("openai"));
  EXPECT_FALSE(key->allows("ui"));
}

TEST_F(Keys, UnknownEmptyAndEndlessTokensAreRefused) {
  const auto keys = open();
  const std::string key = keys->api_key();
  for (const std::string& token : {std::string(), key.substr(1), key + "x", std::string(1'000'000, 'a')}) {
    EXPECT_FALSE(keys->authenticate(token));
  }
}

TEST_F(Keys, RotatingReplacesTheKeyAtOnce) {
  const auto keys = open();
  const std::string old = keys->api_key();
  const auto fresh = keys->rotate_api_key();
  ASSERT_TRUE(fresh);
  EXPECT_NE(*fresh, old);
  EXPECT_EQ(keys->api_key(), *fresh);
  EXPECT_FALSE(keys->authenticate(old));
  EXPECT_TRUE(keys->authenticate(*fresh));
  EXPECT_EQ(open()->api_key(), *fresh);
}

TEST_F(Keys, AFailedWriteLeavesTheOldKeyInForce) {
  const auto keys = open();
  const std::string old = keys->api_key();
  // Something that no file can replace.
  fs::remove(home.path() / "tokens.json.bak");
  home.write("tokens.json.bak/in-the-way", "x");
  EXPECT_FALSE(keys->rotate_api_key());
  EXPECT_EQ(keys->api_key(), old);
  EXPECT_TRUE(keys->authenticate(old));
}

TEST_F(Keys, RotatingKeepsTheTokensOfOtherApps) {
  home.write(
      "tokens.json",
      R"({"version":1,"tokens":[{"appId":"editor","appName":"Editor","scopes":["openai"],"token":"abc","createdAt":"x"}]})");
  const auto keys = open();
  ASSERT_TRUE(keys->rotate_api_key());
  EXPECT_EQ(keys->authenticate("abc")->app_id, "editor");
  EXPECT_EQ(open()->authenticate("abc")->app_name, "Editor");
}

TEST_F(Keys, ADamagedFileIsRepairedFromItsBackup) {
  for (const std::string_view damaged : {"", "{", R"({"version":2,"tokens":[]})"}) {
    home.write("tokens.json", damaged);
    home.write("tokens.json.bak", kGood);
    EXPECT_EQ(open()->api_key(), "kept");
    EXPECT_EQ(text("tokens.json"), kGood);
  }
}

TEST_F(Keys, AWrongFileModeIsRepaired) {
  open();
  for (const auto loose : {fs::perms(0644), fs::perms(0666), fs::perms(0700)}) {
    for (const char* name : {"tokens.json", "tokens.json.bak"}) fs::permissions(home.path() / name, loose);
    open();
    EXPECT_EQ(mode("tokens.json"), 0600U);
    EXPECT_EQ(mode("tokens.json.bak"), 0600U);
  }
}

TEST_F(Keys, AMissingFileIsRepairedFromItsBackup) {
  home.write("tokens.json.bak", kGood);
  EXPECT_EQ(open()->api_key(), "kept");
}

TEST_F(Keys, TwoDamagedFilesStopTheStartAndStayAsTheyAre) {
  home.write("tokens.json", "{one");
  home.write("tokens.json.bak", "{two");
  const auto opened = Credentials::open(home.path(), clock, entropy);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, "tokens_invalid");
  EXPECT_THAT(opened.error().message, HasSubstr("tokens.json.bak"));
  EXPECT_EQ(text("tokens.json"), "{one");
  EXPECT_EQ(text("tokens.json.bak"), "{two");
}

TEST_F(Keys, ADamagedFileWithoutBackupStopsTheStart) {
  home.write("tokens.json", "{one");
  EXPECT_FALSE(Credentials::open(home.path(), clock, entropy));
  EXPECT_EQ(text("tokens.json"), "{one");
}

TEST_F(Keys, TheKeyCanBeReadAndMadeWithoutADaemon) {
  const auto key = read_or_create_api_key(home.path(), clock, entropy);
  ASSERT_TRUE(key);
  EXPECT_EQ(read_or_create_api_key(home.path(), clock, entropy).value(), *key);
  EXPECT_EQ(open()->api_key(), *key);
  EXPECT_FALSE(fs::exists(home.path() / "runtime/lock"));
}

TEST(TokenFile, IsAcceptedOrRefusedAsTheTableSays) {
  const auto table = parse_json(read_file(GEZEL_TESTDATA "/service/token_files.json").value()).value();
  for (const auto& row : table.as_array()) {
    const auto parsed = parse_tokens(to_json(row.at("file")));
    EXPECT_EQ(parsed.has_value(), row.at("valid").as_bool()) << row.at("what").as_string();
    if (parsed) {
      EXPECT_EQ(parse_tokens(serialize_tokens(*parsed)).value(), *parsed);
    } else {
      EXPECT_EQ(parsed.error().code, "tokens_invalid");
    }
  }
}

}  // namespace
}  // namespace gezel::service
