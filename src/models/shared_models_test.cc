#include "models/shared_models.h"

#include <gmock/gmock.h>

#include "base/log.h"
#include "models/test_home.h"

namespace gezel::models {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::StoreTest;
using testing::tiny_model;

class Shared : public StoreTest {
 protected:
  Shared() { EXPECT_TRUE(import(files.write("a.gguf", tiny_model()), "copy", "m")); }
  fs::path weights() { return store.root() / "m" / "a.gguf"; }

  TestFolder mine;
};

TEST_F(Shared, AModelWhoseFilesAreWhatItsManifestSaysIsOffered) {
  SharedModels shared(store.root(), mine.path() / "memory.json");
  ASSERT_EQ(shared.list().size(), 1U);
  EXPECT_EQ(shared.find("m")->size_bytes, fs::file_size(weights()));
  EXPECT_EQ(fs::status(mine.path() / "memory.json").permissions(),
            fs::perms::owner_read | fs::perms::owner_write);
}

TEST_F(Shared, Case44AChangedByteWithANewTimeIsRejected) {
  {
    SharedModels shared(store.root(), mine.path() / "memory.json");
    ASSERT_EQ(shared.list().size(), 1U);
  }
  std::string content = read_file(weights()).value();
  content.back() ^= 1;
  std::ofstream(weights(), std::ios::binary | std::ios::trunc) << content;
  fs::last_write_time(weights(), fs::file_time_type::clock::now() + std::chrono::seconds(5));
  SharedModels shared(store.root(), mine.path() / "memory.json");
  const fs::path log = mine.path() / "log";
  setup_logging({.file = log.string()});
  EXPECT_THAT(shared.list(), IsEmpty());
  EXPECT_EQ(shared.find("m").error().code, "model-invalid");
  setup_logging({});
  const std::string lines = read_file(log).value();
  EXPECT_EQ(std::ranges::count(lines, '\n'), 1) << lines;
  EXPECT_THAT(lines, HasSubstr("is not offered"));
}

TEST_F(Shared, AnUnchangedFileIsNotReadAgain) {
  {
    SharedModels shared(store.root(), mine.path() / "memory.json");
    ASSERT_EQ(shared.list().size(), 1U);
  }
  // Another content behind the same stamp can only be seen by reading.
  const auto time = fs::last_write_time(weights());
  std::string content = read_file(weights()).value();
  content.back() ^= 1;
  {
    std::fstream file(weights(), std::ios::binary | std::ios::in | std::ios::out);
    file << content;
  }
  fs::last_write_time(weights(), time);
  SharedModels shared(store.root(), mine.path() / "memory.json");
  EXPECT_EQ(shared.list().size(), 1U);
}

TEST_F(Shared, OtherFilesLinksOrMissingDigestsAreRejected) {
  SharedModels shared(store.root(), mine.path() / "memory.json");
  std::ofstream(store.root() / "m" / "extra.gguf") << "x";
  EXPECT_THAT(shared.find("m").error().message, HasSubstr("not those that its manifest lists"));
  fs::remove(store.root() / "m" / "extra.gguf");
  std::ofstream(store.root() / "m" / "x.partial") << "x";
  EXPECT_TRUE(shared.find("m")) << "partial files do not count";
  const fs::path elsewhere = files.write("b.gguf", tiny_model());
  fs::remove(weights());
  fs::create_symlink(elsewhere, weights());
  EXPECT_THAT(shared.find("m").error().message, HasSubstr("not a regular file"));
}

TEST_F(Shared, Case43WhatTheMachineSuppliesIsNotDeleted) {
  SharedModels shared(store.root(), mine.path() / "memory.json");
  ModelStore own(mine.path(), clock, entropy);
  EXPECT_TRUE(shared.supplies("m"));
  const auto refused =
      own.remove({.id = "m", .in_use_by = {}, .wait = {}, .supplied_by_machine = shared.supplies("m")});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, "read-only-model");
  EXPECT_EQ(refused.error().kind, ErrorKind::conflict);
  EXPECT_TRUE(fs::exists(weights()));
  EXPECT_FALSE(shared.supplies("../m"));
}

TEST_F(Shared, WhatCannotBeReadIsToldWithoutItsPath) {
  SharedModels shared(store.root(), mine.path() / "memory.json");
  const auto found = [&] {
    const testing::NoNewFiles none;
    return shared.find("m");
  }();
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, "model-invalid");
  EXPECT_THAT(found.error().message, HasSubstr("cannot be read by this user"));
  EXPECT_THAT(found.error().message, ::testing::Not(HasSubstr(store.root().string())));
}

}  // namespace
}  // namespace gezel::models
