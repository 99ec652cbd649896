#include "models/profile_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "base/test_folder.h"

namespace gezel::models {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class ProfileFiles : public ::testing::Test {
 protected:
  void write(const std::string& name, std::string_view text) {
    fs::create_directories(home.path() / "profiles");
    std::ofstream(home.path() / "profiles" / name, std::ios::binary) << text;
  }
  // The names of a user's profiles.
  static std::vector<std::string> own(const profiles::Profiles& all) {
    std::vector<std::string> out;
    for (const auto& profile : all.all)
      if (profile.user) out.push_back(profile.name);
    return out;
  }
  TestFolder home;
};

constexpr std::string_view kMine =
    R"({"name":"mine","match":{"model":["tiny*"]},"sampling":{"temperature":0.25}})";

TEST_F(ProfileFiles, AHomeWithoutAFolderHasTheShippedOnes) {
  const auto all = read_profiles(home.path());
  EXPECT_THAT(all.problems, IsEmpty());
  EXPECT_THAT(own(all), IsEmpty());
  EXPECT_EQ(all.all.size(), profiles::shipped_files().size());
  EXPECT_EQ(read_profiles({}).all.size(), all.all.size());
}

TEST_F(ProfileFiles, OnlyVisibleJsonFilesCount) {
  write("mine.json", kMine);
  write("mine.json~", "{");
  write(".hidden.json", "{");
  write("README.md", "# mine");
  const auto all = read_profiles(home.path());
  EXPECT_THAT(all.problems, IsEmpty());
  EXPECT_THAT(own(all), SizeIs(1));
}

TEST_F(ProfileFiles, WhatCannotBeReadIsAProblemAndNothingElse) {
  write("mine.json", kMine);
  write("wrong.json", R"({"name":"wrong","match":{"model":["*"]},"sampling":{"temperature":9}})");
  write("large.json", std::string(profiles::kMaxFileBytes + 1, ' '));
  fs::create_directory(home.path() / "profiles" / "folder.json");
  ASSERT_EQ(mkfifo((home.path() / "profiles" / "pipe.json").c_str(), 0600), 0);
  fs::create_symlink("nowhere", home.path() / "profiles" / "lost.json");
  const auto all = read_profiles(home.path());
  EXPECT_THAT(own(all), SizeIs(1));
  ASSERT_THAT(all.problems, SizeIs(5));
  EXPECT_EQ(all.problems[0].file, "folder.json");
  EXPECT_EQ(all.problems[0].message, "is no file");
  EXPECT_EQ(all.problems[1].message, "is too large; at most 65536 bytes are read");
  EXPECT_EQ(all.problems[2].file, "lost.json");
  EXPECT_THAT(all.problems[2].message, HasSubstr("cannot be read"));
  EXPECT_EQ(all.problems[3].file, "pipe.json");
  EXPECT_EQ(all.problems[4].message, "/sampling/temperature is 9; it must be a number from 0 to 2");
}

TEST_F(ProfileFiles, TooManyFilesAreCounted) {
  for (std::size_t i = 0; i <= profiles::kMaxFiles; ++i) {
    const auto name = fmt::format("p{:04}", i);
    write(name + ".json", R"({"name":")" + name + R"(","match":{"model":["x"]}})");
  }
  const auto all = read_profiles(home.path());
  EXPECT_THAT(own(all), SizeIs(profiles::kMaxFiles));
  ASSERT_THAT(all.problems, SizeIs(1));
  EXPECT_EQ(all.problems[0].file, "p0256.json");
  EXPECT_EQ(all.problems[0].message, "is one of 257 files; only the first 256 by name are read");
}

TEST_F(ProfileFiles, AFolderThatIsNoneIsAProblem) {
  std::ofstream(home.path() / "profiles") << "x";
  EXPECT_THAT(read_profiles(home.path()).problems, SizeIs(1));
}

TEST_F(ProfileFiles, TheModelsFileStandsBetweenTheShippedAndTheUsers) {
  gguf::Metadata file;
  file.architecture = "gemma3";
  file.sampling = {{"temp", 0.5}, {"top_k", 7}, {"penalty_repeat", 1e300}, {"nonsense", 1}};
  EXPECT_EQ(recommended_sampling(file).repeat_penalty, std::nullopt);
  const auto shipped = profile_for(read_profiles({}), "tiny", file);
  EXPECT_EQ(shipped.name, "gemma-3");
  EXPECT_EQ(shipped.tuning.sampling.temperature, 0.5f);
  EXPECT_EQ(shipped.tuning.sampling.top_k, 7);
  EXPECT_EQ(shipped.tuning.sampling.top_p, 0.95f);
  write("mine.json", kMine);
  EXPECT_EQ(profile_for(read_profiles(home.path()), "tiny", file).tuning.sampling.temperature, 0.25f);
  EXPECT_EQ(profile_for(read_profiles(home.path()), "other", file).tuning.sampling.temperature, 0.5f);
}

}  // namespace
}  // namespace gezel::models
