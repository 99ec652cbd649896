#include "service/model_name.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "base/json.h"

namespace gezel::service {
namespace {

using ::testing::HasSubstr;

const std::vector<std::string> kInstalled{"smollm2-135m-instruct", "llama3.1:8b"};

TEST(ModelName, ResolvesAsTheTableSays) {
  const auto table = parse_json(read_file(GEZEL_TESTDATA "/service/model_names.json").value()).value();
  for (const auto& value : table.as_array()) {
    const json::object& row = value.as_object();
    KnownModels known{kInstalled, {}, {}};
    if (const auto* defaults = object_at(row, "defaults")) {
      for (const auto& [provider, model] : *defaults) known.defaults.emplace(provider, model.as_string());
    }
    const std::string text = string_or(row, "model");
    const auto name = resolve_model_name(text, known);
    if (row.contains("code")) {
      ASSERT_FALSE(name) << text;
      EXPECT_EQ(name.error().code, string_or(row, "code")) << text;
      EXPECT_EQ(name.error().param, "model") << text;
      EXPECT_EQ(name.error().status, name.error().code == "invalid_body" ? 400 : 404) << text;
      EXPECT_THAT(name.error().message, HasSubstr(string_or(row, "says"))) << text;
    } else {
      ASSERT_TRUE(name) << text << ": " << name.error().message;
      EXPECT_EQ(*name, (ModelName{string_or(row, "provider"), string_or(row, "id")})) << text;
    }
  }
}

TEST(ModelName, AModelThatCannotBeUsedIsStillNamedByItsIdAlone) {
  const auto name = resolve_model_name("broken", {{}, {"broken"}, {}});
  ASSERT_TRUE(name);
  EXPECT_EQ(*name, (ModelName{"llama-cpp", "broken"}));
}

TEST(ModelName, TheErrorForAModelThatIsNotInstalledNamesItAndTheRemedies) {
  const auto error = model_not_found({"llama-cpp", "smollm2-135m"}, {kInstalled, {}, {}});
  EXPECT_EQ(error.status, 404);
  EXPECT_EQ(error.code, "model_not_found");
  for (const char* part :
       {"smollm2-135m", "llama-cpp", "GET /v1/models", "ensure", "llama-cpp:smollm2-135m-instruct"}) {
    EXPECT_THAT(error.message, HasSubstr(part));
  }
}

}  // namespace
}  // namespace gezel::service
