#include "catalog/version.h"

#include <gtest/gtest.h>

namespace gezel::catalog {
namespace {

TEST(SemVer, SortsAsTheStandardSays) {
  // From low to high; the first line of semver.org's own example, then ours.
  const char* const sorted[] = {"1.0.0-alpha",
                                "1.0.0-alpha.1",
                                "1.0.0-alpha.beta",
                                "1.0.0-beta",
                                "1.0.0-beta.2",
                                "1.0.0-beta.11",
                                "1.0.0-rc.1",
                                "1.0.0",
                                "1.0.1",
                                "1.2.0",
                                "1.10.0",
                                "2.0.0-1",
                                "2.0.0-99999999999999999999999",
                                "2.0.0"};
  for (std::size_t i = 0; i + 1 < std::size(sorted); ++i)
    EXPECT_LT(SemVer::parse(sorted[i]).value(), SemVer::parse(sorted[i + 1]).value()) << sorted[i];
}

TEST(SemVer, IgnoresTheBuild) {
  EXPECT_EQ(SemVer::parse("1.2.3+a").value(), SemVer::parse("1.2.3+b.7").value());
}

TEST(SemVer, RefusesWhatIsNoVersion) {
  for (const char* text : {"", "1", "1.2", "1.2.3.4", "v1.2.3", "01.2.3", "1.2.x", "1.2.3-", "1.2.3-a..b",
                           "1.2.3+", "1.2.3-01", " 1.2.3", "99999999999999999999.0.0"})
    EXPECT_FALSE(SemVer::parse(text)) << text;
}

TEST(Floor, ComparesNumberByNumber) {
  EXPECT_TRUE(meets_floor("1.2", "1.2.0"));
  EXPECT_TRUE(meets_floor("1.9", "1.10"));
  EXPECT_FALSE(meets_floor("1.10", "1.9"));
  EXPECT_FALSE(meets_floor("1.0.1", "1"));
}

TEST(Floor, NoneMalformedOrAnUnstampedBuildIsSatisfied) {
  EXPECT_TRUE(meets_floor("", "1.0.0"));
  EXPECT_TRUE(meets_floor("soon", "1.0.0"));
  EXPECT_TRUE(meets_floor("9.0.0", "0.0.0"));
}

TEST(Floor, TheStricterOneIsTheHigherOne) {
  EXPECT_EQ(stricter_floor("1.2", "1.10"), "1.10");
  EXPECT_EQ(stricter_floor("1.2", ""), "1.2");
  EXPECT_EQ(stricter_floor("bad", "1.2"), "1.2");
}

}  // namespace
}  // namespace gezel::catalog
