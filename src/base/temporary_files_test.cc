#include "base/temporary_files.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/files.h"
#include "base/test_folder.h"

namespace gezel {
namespace {

TEST(TemporaryFiles, OneThatIsLeftHindersNoLaterWrite) {
  const TestFolder folder;
  for (int i = 0; i < 100; ++i) folder.write(fmt::format(".f.tmp-{}-{}", ::getpid(), i), "left");
  EXPECT_TRUE(write_file_atomic(folder.path() / "f", "text"));
  EXPECT_EQ(*read_file(folder.path() / "f"), "text");
}

TEST(TemporaryFiles, AreKnownByTheirNames) {
  for (const char* name : {".f.tmp-Ab12xY", ".config.json.tmp-1-0", ".a.tmp-b.tmp-4711-12"})
    EXPECT_TRUE(is_temporary_name(name)) << name;
  for (const char* name : {"f", ".f", ".f.tmp", ".f.tmp-", ".tmp-Ab12xY", "f.tmp-Ab12xY", ".f.tmp-a.json"})
    EXPECT_FALSE(is_temporary_name(name)) << name;
  EXPECT_TRUE(is_temporary_name(fs::path(temporary_template("/home/config.json")).filename().string()));
}

TEST(TemporaryFiles, OnlyOldOnesAreRemoved) {
  const TestFolder folder;
  const auto now = fs::file_time_type::clock::now(), hour_ago = now - std::chrono::hours(1);
  for (const char* name : {".f.tmp-Ab12xY", ".f.tmp-1-0", "f", ".other"})
    fs::last_write_time(folder.write(name, ""), hour_ago - std::chrono::seconds(1));
  folder.write(".f.tmp-New123", "");
  fs::create_directory(folder.path() / ".d.tmp-Ab12xY");
  remove_old_temporaries(folder.path(), hour_ago);
  EXPECT_FALSE(fs::exists(folder.path() / ".f.tmp-Ab12xY"));
  EXPECT_FALSE(fs::exists(folder.path() / ".f.tmp-1-0"));
  for (const char* name : {"f", ".other", ".f.tmp-New123", ".d.tmp-Ab12xY"})
    EXPECT_TRUE(fs::exists(folder.path() / name)) << name;
  remove_old_temporaries(folder.path() / "absent", now);
}

}  // namespace
}  // namespace gezel
