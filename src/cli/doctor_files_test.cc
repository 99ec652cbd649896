#include "cli/doctor_files.h"

#include <gmock/gmock.h>

#include "base/test_folder.h"
#include "catalog/test_items.h"

namespace gezel::cli {
namespace {

using catalog::testing::identity_json;
using catalog::testing::version_json;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(DoctorFiles, AnItemThatIsWrongNamesFilePointerValueAndLimit) {
  const TestFolder home;
  home.write("catalog/chat-models/mi/mine/manifest.json", identity_json("mine", R"("contextWindow":-4)"));
  home.write("catalog/chat-models/mi/mine/versions/1.0.0/manifest.json", version_json("1.0.0"));
  const auto findings = check_catalog(home.path(), {});
  ASSERT_EQ(findings.size(), 2U);
  EXPECT_EQ(findings[1].subject, "mine");
  EXPECT_EQ(findings[1].verdict, Verdict::warning);
  EXPECT_EQ(findings[1].detail,
            "not used: chat-models/mi/mine/manifest.json: /contextWindow is -4; it must be an integer of at "
            "least 1");
  EXPECT_EQ(findings[1].remedy,
            "correct or remove " + (home.path() / "catalog/chat-models/mi/mine/manifest.json").string());
}

TEST(DoctorFiles, AFaultOfAVersionNamesTheFileOfThatVersion) {
  const TestFolder home;
  home.write("catalog/chat-models/mi/mine/manifest.json", identity_json("mine"));
  home.write("catalog/chat-models/mi/mine/versions/1.0.0/manifest.json", version_json("1.0.0"));
  home.write("catalog/chat-models/mi/mine/versions/1.1.0/manifest.json",
             version_json("1.1.0", R"("mlx":{"huggingfaceRepo":"a/b","approxSizeBytes":1,)"
                                   R"("files":[{"name":"w","sha256":"no","sizeBytes":1}]})"));
  const auto findings = check_catalog(home.path(), {});
  ASSERT_EQ(findings.size(), 2U);
  EXPECT_THAT(
      findings[1].detail,
      HasSubstr(
          "chat-models/mi/mine/versions/1.1.0/manifest.json: /mlx/files/0/sha256 is \"no\"; it must be"));
}

TEST(DoctorFiles, AFileThatIsNoJsonSaysWhere) {
  const TestFolder home;
  home.write("catalog/chat-models/mi/mine/manifest.json", "{\"id\": }");
  const auto findings = check_catalog(home.path(), {});
  ASSERT_EQ(findings.size(), 2U);
  EXPECT_THAT(findings[1].detail, HasSubstr("manifest.json: cannot be read: "));
  EXPECT_THAT(findings[1].detail, HasSubstr("byte"));
}

TEST(DoctorFiles, ACleanCatalogIsOneLine) {
  const TestFolder home;
  home.write("catalog/chat-models/mi/mine/manifest.json", identity_json("mine"));
  home.write("catalog/chat-models/mi/mine/versions/1.0.0/manifest.json", version_json("1.0.0"));
  const auto findings = check_catalog(home.path(), {});
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_THAT(findings[0].detail, HasSubstr("items of your own: 1"));
}

TEST(DoctorFiles, ASettingThatIsWrongIsAWarning) {
  const TestFolder home;
  EXPECT_THAT(check_config(home.path()), IsEmpty());
  home.write("config.json", R"({"modelDirs":["x"]})");
  const auto findings = check_config(home.path());
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].detail, R"(not used: /modelDirs/0 is "x"; it must be an absolute path)");
}

}  // namespace
}  // namespace gezel::cli
