#include <gtest/gtest.h>

#include <set>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/ids.h"

namespace gezel {
namespace {

TEST(Bytes, ReadsLikeAPersonWouldSayIt) {
  EXPECT_EQ(format_bytes(512), "512 B");
  EXPECT_EQ(format_bytes(1536), "1.5 KiB");
  EXPECT_EQ(format_bytes(98'362'432), "93.8 MiB");
  EXPECT_EQ(format_bytes(4 * kGiB), "4.0 GiB");
}

TEST(Clock, PrintsIsoTime) {
  EXPECT_EQ(iso_time(WallTime(Millis(1'700'000'000'123))), "2023-11-14T22:13:20.123Z");
}

TEST(Ids, UuidIsVersion4) {
  SystemEntropy entropy;
  const std::string id = new_uuid(entropy);
  ASSERT_EQ(id.size(), 36u);
  EXPECT_EQ(id[14], '4');
  EXPECT_NE(std::string("89ab").find(id[19]), std::string::npos);
}

TEST(Ids, TokensHaveTheLengthOfTheirEntropy) {
  SystemEntropy entropy;
  EXPECT_EQ(random_token(entropy, 24).size(), 32u);
  EXPECT_EQ(random_token(entropy, 32).size(), 43u);
  EXPECT_NE(random_token(entropy, 24), random_token(entropy, 24));
}

TEST(Ids, ComparesInConstantTime) {
  EXPECT_TRUE(equal_constant_time("abc", "abc"));
  EXPECT_FALSE(equal_constant_time("abc", "abd"));
  EXPECT_FALSE(equal_constant_time("abc", "abcd"));
}

}  // namespace
}  // namespace gezel
