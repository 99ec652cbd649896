#include "catalog/parse.h"

#include <gmock/gmock.h>

#include <limits>

#include "base/files.h"
#include "catalog/resolve.h"
#include "catalog/test_items.h"

namespace gezel::catalog {
namespace {

using ::testing::AllOf;
using testing::entry_json;
using ::testing::HasSubstr;
using testing::packed_json;
using testing::version_json;

Parsed parse(const std::string& text) {
  auto parsed = parse_packed(text);
  EXPECT_TRUE(parsed) << parsed.error().message;
  return parsed ? *parsed : Parsed{};
}

TEST(Packed, ReadsAnEntryWithItsDefaults) {
  const auto parsed = parse(packed_json({entry_json("abc-9b", version_json("1.0.0"))}));
  ASSERT_EQ(parsed.items.size(), 1U);
  const Item& item = *parsed.items[0];
  EXPECT_EQ(item.id, "abc-9b");
  EXPECT_EQ(item.reco_score, 0);
  EXPECT_FALSE(item.chat->supports_reasoning);
  EXPECT_EQ(item.license_class, LicenseClass::unknown);
  ASSERT_TRUE(item.versions[0].llama_cpp);
  EXPECT_EQ(item.versions[0].llama_cpp->files[0].size_bytes, 1000U);
}

TEST(Packed, VersionsAreNewestFirstWhateverTheirOrder) {
  const auto parsed = parse(packed_json({entry_json(
      "abc", version_json("1.9.0") + "," + version_json("1.10.0") + "," + version_json("1.10.0-rc.1"))}));
  std::vector<std::string> order;
  for (const auto& version : parsed.items.at(0)->versions) order.push_back(version.version.text());
  EXPECT_EQ(order, (std::vector<std::string>{"1.10.0", "1.10.0-rc.1", "1.9.0"}));
}

TEST(Packed, ABadEntryIsLeftOutAndTheRestStays) {
  const auto parsed = parse(
      packed_json({entry_json("good", version_json("1.0.0")), entry_json("BAD", version_json("1.0.0"))}));
  ASSERT_EQ(parsed.items.size(), 1U);
  EXPECT_EQ(parsed.items[0]->id, "good");
  ASSERT_EQ(parsed.problems.size(), 1U);
  EXPECT_EQ(parsed.problems[0].field, "id");
}

TEST(Packed, TheSameIdTwiceKeepsTheFirst) {
  const auto parsed = parse(
      packed_json({entry_json("abc", version_json("1.0.0")), entry_json("abc", version_json("2.0.0"))}));
  ASSERT_EQ(parsed.items.size(), 1U);
  EXPECT_EQ(parsed.items[0]->versions[0].version.text(), "1.0.0");
  EXPECT_EQ(parsed.problems.size(), 1U);
}

TEST(Packed, UnknownMembersAreIgnored) {
  EXPECT_EQ(
      parse(packed_json({entry_json("abc", version_json("1.0.0", R"("later":{"x":1})"), R"("new":[1])")}))
          .items.size(),
      1U);
}

// One fault in an otherwise good entry: what the problem must say. Names are in
// testdata/catalog/faults.jsonl.
TEST(Packed, NamesEntryFieldValueAndWhatIsExpected) {
  const auto text = read_file(fs::path(GEZEL_TESTDATA) / "catalog" / "faults.jsonl");
  ASSERT_TRUE(text);
  std::size_t cases = 0;
  for (std::size_t at = 0; at < text->size();) {
    const std::size_t end = text->find('\n', at);
    const std::string line = text->substr(at, end - at);
    at = end == std::string::npos ? text->size() : end + 1;
    if (line.empty()) continue;
    const auto row = parse_json(line).value();
    auto entry = parse_json(entry_json("abc", version_json("1.0.0"))).value().as_object();
    auto& version = entry["versions"].as_array()[0].as_object();
    if (const auto* change = object_at(row.as_object(), "identity"))
      for (const auto& [name, value] : *change) entry[name] = value;
    if (const auto* change = object_at(row.as_object(), "version"))
      for (const auto& [name, value] : *change) version[name] = value;
    if (const auto* change = object_at(row.as_object(), "llamaCpp"))
      for (const auto& [name, value] : *change) version["llamaCpp"].as_object()[name] = value;
    const auto parsed = parse(packed_json({to_json(entry)}));
    ++cases;
    EXPECT_TRUE(parsed.items.empty()) << line;
    ASSERT_FALSE(parsed.problems.empty()) << line;
    EXPECT_EQ(parsed.problems[0].field, string_or(row.as_object(), "field")) << line;
    EXPECT_THAT(parsed.problems[0].message,
                AllOf(HasSubstr(": "), HasSubstr(string_or(row.as_object(), "says"))))
        << line;
  }
  EXPECT_GE(cases, 25U);
}

TEST(Packed, AWholeFileThatDoesNotHoldTogetherIsAnError) {
  const std::string good = packed_json({entry_json("abc", version_json("1.0.0"))});
  const auto with = [&](std::string_view from, std::string_view to) {
    std::string text = good;
    return text.replace(text.find(from), from.size(), to);
  };
  for (const auto& [text, field] : {std::pair{std::string("{"), ""},
                                    {std::string("[]"), ""},
                                    {with("\"schemaVersion\":1", "\"schemaVersion\":2"), "schemaVersion"},
                                    {with("chat-model", "chat"), "kind"},
                                    {with("\"count\":1", "\"count\":2"), "count"}}) {
    const auto parsed = parse_packed(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_EQ(parsed.error().param, field);
  }
}

TEST(Picking, Case56YankedVersionsAreSkippedButResolve) {
  const auto parsed = parse(packed_json({entry_json(
      "abc", version_json("1.1.0") + "," + version_json("1.2.0"), R"("yankedVersions":["1.2.0"])")}));
  const Item& item = *parsed.items.at(0);
  EXPECT_EQ(latest_version(item, {})->version.text(), "1.1.0");
  EXPECT_EQ(find_version(item, "1.2.0")->version.text(), "1.2.0");
}

TEST(Picking, MinimumAndFloorsHideVersionsButNotExplicitOnes) {
  const auto parsed = parse(packed_json(
      {entry_json("abc", version_json("1.0.0") + "," + version_json("2.0.0", R"("minServiceVersion":"9.0")"),
                  R"("minSupportedVersion":"1.0.0")")}));
  const Item& item = *parsed.items.at(0);
  EXPECT_EQ(latest_version(item, {.level = "1.0"})->version.text(), "1.0.0");
  EXPECT_EQ(latest_version(item, {.level = "9.0"})->version.text(), "2.0.0");
  EXPECT_EQ(latest_version(item, {.level = "1.0", .ignore_floors = true})->version.text(), "2.0.0");
  EXPECT_NE(find_version(item, "2.0.0"), nullptr);
}

TEST(Picking, AnItemWithoutVersionsLeftSaysWhyUnlessTheyWereWithdrawn) {
  const auto hidden =
      parse(packed_json({entry_json("abc", version_json("1.0.0"), R"("minSupportedVersion":"2.0.0")")}));
  EXPECT_EQ(latest_version(*hidden.items.at(0), {}), nullptr);
  EXPECT_THAT(unresolved_reason(*hidden.items.at(0), {}), HasSubstr("minSupportedVersion is 2.0.0"));
  const auto yanked =
      parse(packed_json({entry_json("abc", version_json("1.0.0"), R"("yankedVersions":["1.0.0"])")}));
  EXPECT_EQ(unresolved_reason(*yanked.items.at(0), {}), "");
}

TEST(Manifest, IsIdentityAndVersionWithTheStricterFloor) {
  const auto parsed = parse(packed_json({entry_json(
      "abc", version_json("1.0.0", R"("minServiceVersion":"0.9")"), R"("minServiceVersion":"0.5")")}));
  const auto manifest = resolved_manifest({parsed.items.at(0), &parsed.items[0]->versions[0], "bundled"});
  EXPECT_EQ(string_or(manifest, "kind"), "chat-model");
  EXPECT_EQ(string_or(manifest, "version"), "1.0.0");
  EXPECT_EQ(string_or(manifest, "minServiceVersion"), "0.9");
  EXPECT_EQ(manifest.at("availableVersions").as_array().size(), 1U);
  EXPECT_FALSE(manifest.contains("versions"));
}

TEST(Aliases, ExactIdsFirstThenAliasesThenTags) {
  const auto parsed =
      parse(packed_json({entry_json("new-q4", version_json("1.0.0", R"("ollama":{"tag":"tagged:9b"})"),
                                    R"("aliases":["old","other"])"),
                         entry_json("other", version_json("1.0.0"))}));
  EXPECT_EQ(resolve_id("new-q4", parsed.items), "new-q4");
  EXPECT_EQ(resolve_id("old", parsed.items), "new-q4");
  EXPECT_EQ(resolve_id("other", parsed.items), "other");
  EXPECT_EQ(resolve_id("tagged:9b", parsed.items), "new-q4");
  EXPECT_EQ(resolve_id("tagged:9b:latest", parsed.items), "new-q4");
  EXPECT_EQ(resolve_id("nope", parsed.items), "nope");
  EXPECT_EQ(resolve_id("mine", parsed.items, {{"mine", "old"}}), "old") << "aliases never chain";
}

}  // namespace
}  // namespace gezel::catalog
