#include "base/files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/ids.h"
#include "base/test_folder.h"

namespace gezel {
namespace {

class FilesTest : public testing::Test {
 protected:
  TestFolder here_;
  const fs::path& folder_ = here_.path();
};

TEST_F(FilesTest, WritesWithExactlyTheModeAsked) {
  const mode_t old = ::umask(0177);
  ASSERT_TRUE(write_file_atomic(folder_ / "f", "text", 0644));
  ::umask(old);
  struct stat info{};
  ASSERT_EQ(::stat((folder_ / "f").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0644u);
}

TEST_F(FilesTest, SetsAModeAndTellsTheOneBefore) {
  ASSERT_TRUE(write_file_atomic(folder_ / "f", "text", 0644));
  EXPECT_EQ(set_file_mode(folder_ / "f", 0600).value(), 0644u);
  EXPECT_EQ(set_file_mode(folder_ / "f", 0600).value(), std::nullopt);
  EXPECT_EQ(set_file_mode(folder_ / "absent", 0600).value(), std::nullopt);
}

TEST_F(FilesTest, ChecksWhetherAFolderCanBeRead) {
  EXPECT_TRUE(check_folder(folder_));
  EXPECT_TRUE(check_folder(folder_ / "absent"));
  ASSERT_TRUE(write_file_atomic(folder_ / "f", "text"));
  const auto file = check_folder(folder_ / "f");
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().message, (folder_ / "f").string() + ": not a directory");
}

TEST_F(FilesTest, LeavesNoTemporaryFileBehind) {
  ASSERT_TRUE(write_file_atomic(folder_ / "f", "one"));
  ASSERT_TRUE(write_file_atomic(folder_ / "f", "two"));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 1);
  EXPECT_EQ(*read_file(folder_ / "f"), "two");
}

TEST_F(FilesTest, FailsWithoutTraceWhenTheTargetIsAFolder) {
  fs::create_directory(folder_ / "f");
  fs::create_directory(folder_ / "f" / "inner");
  EXPECT_FALSE(write_file_atomic(folder_ / "f", "text"));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 1);
}

TEST_F(FilesTest, RefusesAFileAboveTheLimit) {
  ASSERT_TRUE(write_file_atomic(folder_ / "f", std::string(100, 'x')));
  const auto content = read_file(folder_ / "f", 99);
  ASSERT_FALSE(content);
  EXPECT_EQ(content.error().kind, ErrorKind::too_large);
}

TEST_F(FilesTest, HashesAFile) {
  ASSERT_TRUE(write_file_atomic(folder_ / "f", "abc"));
  EXPECT_EQ(*sha256_file(folder_ / "f"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_hex("abc"), *sha256_file(folder_ / "f"));
}

TEST_F(FilesTest, CancelsHashing) {
  ASSERT_TRUE(write_file_atomic(folder_ / "f", "abc"));
  const auto digest = sha256_file(folder_ / "f", [](Bytes) { return false; });
  ASSERT_FALSE(digest);
  EXPECT_EQ(digest.error().kind, ErrorKind::cancelled);
}

TEST_F(FilesTest, MakesNestedPrivateFolders) {
  ASSERT_TRUE(make_private_folder(folder_ / "a" / "b"));
  struct stat info{};
  ASSERT_EQ(::stat((folder_ / "a").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  EXPECT_TRUE(make_private_folder(folder_ / "a" / "b"));
}

}  // namespace
}  // namespace gezel
