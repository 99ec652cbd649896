#include "models/url_source.h"

#include <gmock/gmock.h>

#include "models/ids.h"
#include "models/install_test_support.h"
#include "models/owner.h"

namespace gezel::models {
namespace {

using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

std::vector<std::string> strings(const json::value& list) {
  std::vector<std::string> out;
  for (const auto& each : list.as_array()) out.emplace_back(each.as_string());
  return out;
}

TEST(UrlSource, PlansWhatAnAddressNames) {
  const auto cases = parse_json(read_file(GEZEL_TESTDATA "/models/urls.json").value()).value();
  for (const auto& each : cases.as_array()) {
    const auto& row = each.as_object();
    const std::string url = string_or(row, "url");
    const auto plan = plan_url(url);
    EXPECT_EQ(plan ? "" : plan.error().code, string_or(row, "error")) << url;
    if (!plan) continue;
    EXPECT_EQ(plan->id, string_or(row, "id")) << url;
    EXPECT_EQ(plan->source, kFromUrl);
    EXPECT_EQ(plan->address, string_or(row, "address")) << url;
    EXPECT_EQ(plan->files.front().sha256, string_or(row, "sha256")) << url;
    std::vector<std::string> names, urls;
    for (const auto& file : plan->files) {
      names.push_back(file.name);
      urls.push_back(file.urls.front());
    }
    EXPECT_THAT(names, ElementsAreArray(strings(row.at("files")))) << url;
    if (row.contains("urls")) EXPECT_THAT(urls, ElementsAreArray(strings(row.at("urls")))) << url;
  }
}

TEST(UrlSource, TakesAnIdAndADigest) {
  const std::string digest(64, 'b');
  const auto plan = plan_url("https://example.org/a.gguf", "notes", std::string(64, 'B'));
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->id, "notes");
  EXPECT_EQ(plan->files.front().sha256, digest);
  EXPECT_EQ(plan_url("https://example.org/a.gguf", "../x").error().code, "invalid-model-id");
  EXPECT_EQ(plan_url("https://example.org/a.gguf", "", "12").error().code, "invalid_sha256");
  EXPECT_EQ(plan_url("https://example.org/a.gguf#sha256=" + digest, "", std::string(64, 'c')).error().code,
            "invalid_sha256");
  EXPECT_EQ(plan_url("https://example.org/a-00001-of-00002.gguf", "", digest).error().code, "invalid_sha256");
}

TEST(UrlSource, MorePartsThanAModelHasAreRefusedBeforeTheyAreListed) {
  const auto plan = plan_url("https://example.org/m-00001-of-99999.gguf?key=" + std::string(8'000, 'k'), "m");
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code, "too_many_parts");
  EXPECT_THAT(plan.error().message, HasSubstr("one of 99999 parts; at most 4096"));
  EXPECT_TRUE(plan_url("https://example.org/m-00001-of-04096.gguf"));
}

TEST(UrlSource, AnErrorShowsNoKey) {
  const auto plan = plan_url("https://example.org/models/?key=secret");
  ASSERT_FALSE(plan);
  EXPECT_THAT(plan.error().message, ::testing::Not(HasSubstr("secret")));
}

TEST(UrlSource, AnIdThatWouldBeTooLongIsMarkedByItsAddress) {
  const std::string name(100, 'm');
  const auto one = plan_url("https://example.org/a/" + name + ".gguf"),
             two = plan_url("https://example.org/b/" + name + ".gguf");
  ASSERT_TRUE(one && two);
  EXPECT_EQ(one->id.size(), kMaxIdLength);
  EXPECT_NE(one->id, two->id);
}

TEST(UrlSource, TheHubsOwnAddressesAreNamesOfTheHub) {
  const Hub hub{.base = "https://hub.example", .mirrors = {}};
  EXPECT_EQ(hub_id_of_url("https://hub.example/org/repo/resolve/main/sub/m.gguf?download=true", hub),
            "hf:org/repo@main:sub/m.gguf");
  EXPECT_EQ(hub_id_of_url("https://hub.example/org/repo/blob/v1.0/m.gguf", hub), "hf:org/repo@v1.0:m.gguf");
  for (const char* other :
       {"https://other.example/org/repo/resolve/main/m.gguf", "https://hub.example/org/repo/raw/main/m.gguf",
        "https://hub.example/org/repo/resolve/main/m.bin", "https://hub.example/m.gguf",
        "https://hub.example/org/re%20po/resolve/main/m.gguf",
        "https://hub.example:444/o/r/resolve/main/m.gguf",
        "https://hub.example/org/repo/resolve/main/a%3Ab.gguf", "nonsense"})
    EXPECT_EQ(hub_id_of_url(other, hub), "") << other;
  EXPECT_EQ(hub_id_of_url("https://hub.example/org/repo/resolve/main/m.gguf",
                          {.base = "file:///hub", .mirrors = {}}),
            "");
}

TEST(UrlSource, OneAddressIsOneModelWhateverItsKey) {
  const auto one = plan_url("https://example.org/a.gguf?key=1"),
             again = plan_url("https://example.org/a.gguf?key=2"),
             other = plan_url("https://example.org/b/a.gguf");
  InstalledModel there;
  there.id = one->id;
  there.source = kFromUrl;
  there.address = one->address;
  EXPECT_TRUE(is_same_source(there, *again));
  EXPECT_FALSE(is_same_source(there, *other));
  const auto installed = [&](std::string_view id) { return id == there.id ? &there : nullptr; };
  EXPECT_EQ(free_id(*again, installed), "local-a");
  EXPECT_EQ(free_id(*other, installed), distinct_id(*other));
  EXPECT_EQ(check_owner(there, *other).error().code, "model_exists");
  EXPECT_TRUE(check_owner(there, *again));
}

}  // namespace
}  // namespace gezel::models
