#include <gmock/gmock.h>

#include "http/test_support.h"

namespace gezel::http::test {
namespace {

using testing::HasSubstr;

class CatalogHandlers : public RouterTest {};

TEST_F(CatalogHandlers, AreForManagementOnly) {
  for (const char* path : {"/api/catalog/chat-models", "/api/catalog-updates", "/api/default-model"})
    EXPECT_EQ(send(get(path)).status, 403) << path;
}

TEST_F(CatalogHandlers, TheCatalogIsAskedWithWhatStandsBehindItAndAVersion) {
  EXPECT_EQ(send(get("/api/catalog/chat-models/a%3Ab/versions?version=1.0.0", "client")).body,
            R"({"path":"chat-models/a:b/versions","version":"1.0.0"})");
}

TEST_F(CatalogHandlers, UpdatesAreShownCheckedAndSwitched) {
  EXPECT_EQ(send(get("/api/catalog-updates", "client")).body, R"({"enabled":false})");
  EXPECT_EQ(send(post("/api/catalog-updates/check", "", "client")).body, R"({"outcome":"blocked"})");
  EXPECT_EQ(send(post("/api/catalog-updates", R"({"enabled":true,"url":"https://a.b/p"})", "client")).body,
            R"({"enabled":true,"url":"https://a.b/p"})");
  EXPECT_THAT(send(post("/api/catalog-updates", R"({"enabled":"yes"})", "client")).body,
              HasSubstr("enabled"));
  EXPECT_EQ(send(post("/api/catalog-updates", "[]", "client")).status, 400);
}

TEST_F(CatalogHandlers, TheDefaultModelIsShownAndPinned) {
  EXPECT_EQ(send(post("/api/default-model", R"({"model":"a"})", "client")).body,
            R"({"provider":"llama-cpp","pinned":null,"model":"a"})");
  EXPECT_THAT(send(get("/api/default-model", "client")).body, HasSubstr(R"("model":"a")"));
  EXPECT_EQ(send(post("/api/default-model", "{}", "client")).status, 400);
}

}  // namespace
}  // namespace gezel::http::test
