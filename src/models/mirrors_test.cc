#include "models/mirrors.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "models/hub.h"
#include "models/install_test_support.h"
#include "models/url_source.h"

namespace gezel::models {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kDigest(64, 'a');
constexpr std::string_view kCommit = "0123456789012345678901234567890123456789";

InstallPlan of_repository() {
  auto plan = plan_hub({.repository = "org/repo"}, kCommit,
                       {{.path = "sub/m.gguf", .size_bytes = 10, .sha256 = kDigest}},
                       {.base = "https://hub.example/base", .mirrors = {"https://second.example"}});
  EXPECT_TRUE(plan);
  return plan.value_or(InstallPlan{});
}

std::vector<std::string> urls_of(const InstallPlan& plan) {
  std::vector<std::string> out;
  for (const auto& source : sources_of(plan, plan.files.front())) out.push_back(source.url);
  return out;
}

std::string refusal(InstallPlan plan, const std::vector<std::string>& mirrors) {
  const auto added = add_mirrors(plan, mirrors);
  if (added) return "";
  EXPECT_EQ(added.error().code, "invalid_mirrors");
  EXPECT_EQ(added.error().param, "mirrors");
  return added.error().message;
}

TEST(Mirrors, OfARepositoryHaveItsLayoutAndComeAfterTheHub) {
  auto plan = of_repository();
  ASSERT_TRUE(add_mirrors(plan, {"https://a.example/hub/", "https://b.example"}));
  const std::string path = "/org/repo/resolve/" + std::string(kCommit) + "/sub/m.gguf?download=true";
  EXPECT_THAT(urls_of(plan), ElementsAre("https://hub.example/base" + path, "https://a.example/hub" + path,
                                         "https://b.example" + path, "https://second.example" + path));
}

TEST(Mirrors, OfAnyAddressHaveTheFileItself) {
  auto plan = plan_url("https://h.example/x/y/m.gguf?key=1", {}, kDigest);
  ASSERT_TRUE(plan);
  ASSERT_TRUE(add_mirrors(*plan, {"https://a.example/models"}));
  EXPECT_THAT(urls_of(*plan),
              ElementsAre("https://h.example/x/y/m.gguf?key=1", "https://a.example/models/m.gguf"));
}

TEST(Mirrors, MustBePublicHostsWhateverThePlansOwnIs) {
  auto plan = of_repository();
  ASSERT_TRUE(add_mirrors(plan, {"https://a.example"}));
  const auto sources = sources_of(plan, plan.files.front());
  ASSERT_EQ(sources.size(), 3u);
  EXPECT_FALSE(sources[0].public_only);
  EXPECT_TRUE(sources[1].public_only);
  EXPECT_FALSE(sources[2].public_only);
}

TEST(Mirrors, ThatAreNamedTwiceAreAskedOnce) {
  auto plan = of_repository();
  ASSERT_TRUE(add_mirrors(plan, {"https://a.example", "https://a.example/", "https://second.example"}));
  EXPECT_EQ(urls_of(plan).size(), 3u);
}

TEST(Mirrors, WhatIsNoBaseAddressIsNamed) {
  EXPECT_THAT(refusal(of_repository(), {"http://a.example"}), HasSubstr("http://a.example"));
  EXPECT_THAT(refusal(of_repository(), {"file:///models"}), HasSubstr("file:///models"));
  EXPECT_THAT(refusal(of_repository(), {"https://a.example/?token=secret"}),
              ::testing::AllOf(HasSubstr("without ? and #"), ::testing::Not(HasSubstr("secret"))));
  EXPECT_THAT(refusal(of_repository(), {"https://a.example/" + std::string(kMaxMirrorBytes, 'x')}),
              HasSubstr("2048"));
}

TEST(Mirrors, ThereMayBeSixteen) {
  std::vector<std::string> mirrors;
  for (int i = 0; i < 16; ++i) mirrors.push_back(fmt::format("https://m{}.example", i));
  EXPECT_EQ(refusal(of_repository(), mirrors), "");
  mirrors.emplace_back("https://m16.example");
  EXPECT_THAT(refusal(of_repository(), mirrors), HasSubstr("17 mirrors; at most 16"));
}

TEST(Mirrors, NeedADigestOfEveryFile) {
  auto plan = of_repository();
  plan.files.front().sha256.clear();
  EXPECT_THAT(refusal(plan, {"https://a.example"}), HasSubstr("m.gguf"));
  EXPECT_EQ(refusal(plan, {}), "") << "no mirrors, nothing to compare";
}

class NamedMirrors : public testing::Installer {};

TEST_F(NamedMirrors, OneWithOtherBytesIsPassedOver) {
  downloads::testing::TestServer denying([](const downloads::testing::ServedRequest&) {
    downloads::testing::Reply out;
    out.status = 404;
    return out;
  });
  downloads::testing::TestServer corrupting([&](const downloads::testing::ServedRequest& request) {
    auto out = answer(request);
    out.body[out.body.size() / 2] ^= 1;
    return out;
  });
  auto plan = testing::plan_for(files, denying.url(""));
  plan.repository.clear();  // the last part of the address is the file
  ASSERT_TRUE(add_mirrors(plan, {corrupting.url(""), server.url("")}));
  ASSERT_TRUE(run(plan));
  EXPECT_EQ(corrupting.requests().size(), 1U);
  EXPECT_EQ(server.requests().size(), 1U);
}

}  // namespace
}  // namespace gezel::models
