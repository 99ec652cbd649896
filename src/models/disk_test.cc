#include "models/disk.h"

#include <gtest/gtest.h>

#include "base/test_folder.h"

namespace gezel::models {
namespace {

TEST(RenameNew, TakesAFreeNameOnly) {
  const TestFolder folder;
  const fs::path from = folder.write("from", "new"), to = folder.path() / "to";
  ASSERT_TRUE(rename_new(from, to));
  EXPECT_FALSE(fs::exists(from));
  EXPECT_EQ(read_file(to).value(), "new");
  const auto refused = rename_new(folder.write("other", "other"), to);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, "file_exists");
  EXPECT_EQ(read_file(to).value(), "new");
  EXPECT_TRUE(fs::exists(folder.path() / "other"));
}

TEST(RenameNew, ADanglingLinkIsATakenName) {
  const TestFolder folder;
  fs::create_symlink(folder.path() / "nowhere", folder.path() / "to");
  EXPECT_FALSE(rename_new(folder.write("from", "new"), folder.path() / "to"));
}

}  // namespace
}  // namespace gezel::models
