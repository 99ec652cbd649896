#include "models/ids.h"

#include <gtest/gtest.h>

#include "base/files.h"
#include "base/json.h"

namespace gezel::models {
namespace {

json::object cases() {
  return parse_json(read_file(GEZEL_TESTDATA "/models/ids.json").value()).value().as_object();
}
std::vector<std::string> texts(const json::value& list) {
  return json::value_to<std::vector<std::string>>(list);
}

TEST(ModelIds, AreDerivedFromTheFileName) {
  for (const auto& value : cases()["local_ids"].as_array()) {
    EXPECT_EQ(local_id(value.at("stem").as_string()), value.at("id").as_string());
  }
}

TEST(ModelIds, DerivedOnesAreAlwaysStoreSafe) {
  for (const auto& value : cases()["local_ids"].as_array()) {
    EXPECT_TRUE(is_store_safe_id(local_id(value.at("stem").as_string())));
    EXPECT_TRUE(is_store_safe_id(numbered_id(local_id(value.at("stem").as_string()), 999)));
  }
}

TEST(ModelIds, AcceptWhatIsOnePlainPathSegment) {
  auto table = cases();
  for (const auto& id : texts(table["safe_ids"])) EXPECT_TRUE(is_store_safe_id(id)) << id;
  for (const auto& id : texts(table["unsafe_ids"])) EXPECT_FALSE(is_store_safe_id(id)) << id;
}

TEST(ModelIds, AreToldApartWithoutRegardToCase) {
  EXPECT_TRUE(same_id("Qwen3", "qwen3"));
  EXPECT_FALSE(same_id("qwen3", "qwen3-2"));
}

TEST(ModelIds, NumberedOnesStayWithinTheLimit) {
  EXPECT_EQ(numbered_id("local-a", 1), "local-a");
  EXPECT_EQ(numbered_id("local-a", 2), "local-a-2");
  EXPECT_EQ(numbered_id(std::string(kMaxIdLength, 'a'), 12), std::string(kMaxIdLength - 3, 'a') + "-12");
}

TEST(EditDistance, CountsASwapOfNeighboursOnce) {
  EXPECT_EQ(edit_distance("abcd", "abdc"), 1U);
  EXPECT_EQ(edit_distance("abc", "ABC"), 0U);
  EXPECT_EQ(edit_distance("", "abc"), 3U);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3U);
}

TEST(NearMisses, AreThoseAPersonMayHaveMeant) {
  for (const auto& value : cases()["near_misses"].as_array()) {
    EXPECT_EQ(most_similar(value.at("id").as_string(), texts(value.at("known"))), texts(value.at("best")))
        << value.at("id").as_string();
  }
}

}  // namespace
}  // namespace gezel::models
