#include "gguf/split.h"

#include <gtest/gtest.h>

namespace gezel::gguf {
namespace {

TEST(GgufSplitName, ReadsPrefixNumberAndCount) {
  const auto name = parse_split_name("my-model-00002-of-00010.gguf");
  ASSERT_TRUE(name);
  EXPECT_EQ(name->prefix, "my-model");
  EXPECT_EQ(name->number, 2u);
  EXPECT_EQ(name->count, 10u);
}

TEST(GgufSplitName, OtherNamesAreNoShards) {
  for (const char* name : {"model.gguf", "", "-00001-of-00002.gguf", "m-00000-of-00002.gguf",
                           "m-00003-of-00002.gguf", "m-0001-of-00002.gguf", "m-0000a-of-00002.gguf",
                           "m-00001-of-00002.bin", "m00001-of-00002.gguf", "m-00001_of_00002.gguf"}) {
    EXPECT_FALSE(parse_split_name(name)) << name;
  }
}

TEST(GgufSplitName, ListsAllShardsFromAnyOfThem) {
  const auto paths = shard_paths("/models/m-00002-of-00003.gguf");
  ASSERT_EQ(paths.size(), 3u);
  EXPECT_EQ(paths[0], "/models/m-00001-of-00003.gguf");
  EXPECT_EQ(paths[2], "/models/m-00003-of-00003.gguf");
  EXPECT_EQ(shard_paths("/models/m.gguf"), std::vector<std::filesystem::path>{"/models/m.gguf"});
}

}  // namespace
}  // namespace gezel::gguf
