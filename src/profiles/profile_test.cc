#include "profiles/profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "profiles/match.h"

namespace gezel::profiles {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::vector<json::object> cases(std::string_view file) {
  std::ifstream in(std::string(GEZEL_TESTDATA) + "/profiles/" + std::string(file));
  std::vector<json::object> out;
  for (std::string line; std::getline(in, line);) out.push_back(json::parse(line).as_object());
  EXPECT_FALSE(out.empty()) << file;
  return out;
}

// One shipped file and the user's.
Profiles both(std::string shipped, std::string user) {
  const std::vector<File> ours{{"shipped.json", std::move(shipped)}}, theirs{{"mine.json", std::move(user)}};
  return assemble(ours, theirs);
}

Profiles of_user(std::string text) {
  const std::vector<File> files{{"mine.json", std::move(text)}};
  return assemble({}, files);
}

TEST(Profiles, EveryShippedFileIsRight) {
  const auto profiles = assemble(shipped_files(), {});
  for (const auto& problem : profiles.problems) ADD_FAILURE() << problem.file << ": " << problem.message;
  EXPECT_EQ(profiles.all.size(), shipped_files().size());
  EXPECT_GE(profiles.all.size(), 40U);
}

TEST(Profiles, AShippedFileIsCalledAsItsProfileAndValuesHaveASource) {
  for (const auto& file : shipped_files()) {
    const auto document = json::parse(file.text).as_object();
    EXPECT_EQ(string_or(document, "name") + ".json", file.name);
    if (document.contains("sampling") || document.contains("sampling_when_thinking"))
      EXPECT_TRUE(document.contains("source")) << file.name;
  }
}

TEST(Profiles, EveryMistakeIsNamedWithItsPlaceItsValueAndWhatIsRight) {
  for (const auto& entry : cases("errors.jsonl")) {
    SCOPED_TRACE(string_or(entry, "fact"));
    const auto profiles = of_user(string_or(entry, "text"));
    EXPECT_THAT(profiles.all, IsEmpty());
    ASSERT_THAT(profiles.problems, SizeIs(1));
    EXPECT_EQ(profiles.problems[0].file, "mine.json");
    EXPECT_EQ(profiles.problems[0].pointer, string_or(entry, "pointer"));
    if (const auto message = string_or(entry, "message"); !message.empty())
      EXPECT_EQ(profiles.problems[0].message, message);
  }
}

TEST(Profiles, AnUnknownDialectIsAnsweredWithTheKnownOnes) {
  const auto profiles = of_user(R"({"name":"a","match":{"model":["*"]},"dialect":"elvish","family":"orc"})");
  ASSERT_THAT(profiles.problems, SizeIs(2));
  EXPECT_THAT(
      profiles.problems[0].message,
      AllOf(HasSubstr("/dialect is \"elvish\"; it must be \"\" or one of hermes, "), HasSubstr("solar")));
  EXPECT_THAT(profiles.problems[1].message,
              HasSubstr("/family is \"orc\"; it must be \"\" or one of other, "));
}

TEST(Profiles, OneLookNamesEverythingThatIsWrongWithAFile) {
  const auto profiles =
      of_user(R"({"name":"a","match":{"model":[]},"sampling":{"top_p":7,"min_p":-1},"max_tokens":"x"})");
  EXPECT_THAT(
      profiles.problems,
      ElementsAre(Field(&Problem::pointer, "/match/model"), Field(&Problem::pointer, "/sampling/top_p"),
                  Field(&Problem::pointer, "/sampling/min_p"), Field(&Problem::pointer, "/max_tokens")));
}

TEST(Profiles, AUsersFileIsLaidOverTheShippedOneOfItsName) {
  const auto profiles = both(
      R"({"name":"a","order":5,"match":{"chat_template":["<x>"]},"dialect":"hermes","max_tokens":9,
          "sampling":{"temperature":1,"top_k":64},"template_kwargs":{"deep":{"a":1,"b":2}}})",
      R"({"name":"a","sampling":{"temperature":0.5,"top_k":null},"max_tokens":null,
          "template_kwargs":{"deep":{"b":3}}})");
  EXPECT_THAT(profiles.problems, IsEmpty());
  ASSERT_THAT(profiles.all, SizeIs(1));
  const Profile& profile = profiles.all[0];
  EXPECT_TRUE(profile.user);
  EXPECT_EQ(profile.order, 5);
  EXPECT_EQ(profile.dialect, "hermes");
  EXPECT_THAT(profile.match.chat_template, ElementsAre("<x>"));
  EXPECT_EQ(profile.values.sampling.temperature, 0.5f);
  EXPECT_EQ(profile.values.sampling.top_k, std::nullopt);  // null takes it away
  EXPECT_EQ(profile.values.max_tokens, std::nullopt);
  EXPECT_EQ(to_json(profile.values.template_kwargs), R"({"deep":{"a":1,"b":3}})");
  EXPECT_EQ(profile.own.sampling.temperature, 0.5f);
  EXPECT_EQ(profile.own.sampling.top_k, std::nullopt);
}

TEST(Profiles, AWrongFileOfTheUserLeavesTheShippedOneAsItIs) {
  const auto profiles = both(R"({"name":"a","match":{"chat_template":["<x>"]},"sampling":{"temperature":1}})",
                             R"({"name":"a","sampling":{"temperature":0.5,"top_p":9}})");
  EXPECT_THAT(profiles.problems, SizeIs(1));
  ASSERT_THAT(profiles.all, SizeIs(1));
  EXPECT_FALSE(profiles.all[0].user);
  EXPECT_EQ(profiles.all[0].values.sampling.temperature, 1.0f);
}

TEST(Profiles, AShippedProfileCannotBeLeftWithoutAMatch) {
  const auto profiles =
      both(R"({"name":"a","match":{"chat_template":["<x>"]}})", R"({"name":"a","match":null})");
  ASSERT_THAT(profiles.problems, SizeIs(1));
  EXPECT_EQ(profiles.problems[0].pointer, "/match");
  EXPECT_FALSE(profiles.all.at(0).user);
}

TEST(Profiles, OfTwoFilesWithOneNameTheLaterIsRefused) {
  const std::vector<File> files{{"1.json", R"({"name":"a","match":{"model":["x"]}})"},
                                {"2.json", R"({"name":"a","match":{"model":["y"]}})"}};
  const auto profiles = assemble({}, files);
  ASSERT_THAT(profiles.problems, SizeIs(1));
  EXPECT_EQ(profiles.problems[0].file, "2.json");
  EXPECT_THAT(profiles.problems[0].message, HasSubstr("as in 1.json"));
  EXPECT_THAT(profiles.all.at(0).match.model, ElementsAre("x"));
}

TEST(Profiles, LowerOrderStandsFirstAndAUsersOwnBeforeAllShipped) {
  const std::vector<File> ours{{"b.json", R"({"name":"b","order":1,"match":{"model":["x"]}})"},
                               {"a.json", R"({"name":"a","order":2,"match":{"model":["x"]}})"}};
  const std::vector<File> theirs{{"c.json", R"({"name":"c","match":{"model":["x"]}})"}};
  std::vector<std::string> names;
  for (const auto& profile : assemble(ours, theirs).all) names.push_back(profile.name);
  EXPECT_THAT(names, ElementsAre("c", "b", "a"));
  for (const auto& profile : assemble(shipped_files(), {}).all) EXPECT_GT(profile.order, 0) << profile.name;
}

TEST(Profiles, HostileFilesAreRefusedWithoutHarm) {
  const std::string deep =
      R"({"name":"a","match":{"model":["*"]},"template_kwargs":)" + std::string(100'000, '[');
  std::string many = R"({"name":"a","match":{"model":["*"]})";
  for (int i = 0; i < 2'000; ++i) many += ",\"x" + std::to_string(i) + "\":1";
  many += "}";
  const std::string invalid = "{\"name\":\"a\",\"match\":{\"model\":[\"\xff\xfe\"]}}";
  const std::string huge = R"({"name":"a","source":")" + std::string(kMaxFileBytes, 'x') + "\"}";
  for (const auto& text : {deep, many, invalid, huge, std::string(), std::string("\0\0", 2)}) {
    const auto profiles = of_user(text);
    EXPECT_THAT(profiles.all, IsEmpty());
    EXPECT_FALSE(profiles.problems.empty());
    EXPECT_LE(profiles.problems.size(), kMaxProblems + 1);
    for (const auto& problem : profiles.problems) EXPECT_LT(problem.message.size(), 1'000U);
  }
  EXPECT_THAT(of_user(huge).problems.at(0).message, HasSubstr("at most 65536 are read"));
}

// Any prefix and any changed byte of a right file: an answer, and only ever about this file.
TEST(Profiles, DamagedFilesNeverDoMoreThanBeRefused) {
  const std::string good = R"({"name":"gemma-3","match":{"chat_template":["<a>"],"model":["b*"]},)"
                           R"("reasoning":{"open":"<x>","close":"</x>"},)"
                           R"("sampling":{"temperature":1.5,"top_k":3,"dry_sequence_breakers":["\n"]},)"
                           R"("template_kwargs":{"a":[1,{}]}})";
  ASSERT_THAT(of_user(good).problems, IsEmpty());
  for (std::size_t i = 0; i < good.size(); ++i) {
    EXPECT_THAT(of_user(good.substr(0, i)).all, IsEmpty());
    for (const char c : {'"', '{', '\0', '\xff', '-'}) {
      std::string damaged = good;
      damaged[i] = c;
      const auto profiles = of_user(damaged);
      EXPECT_EQ(profiles.all.empty(), !profiles.problems.empty());
    }
  }
}

}  // namespace
}  // namespace gezel::profiles
