#include <gmock/gmock.h>

#include "http/test_support.h"

namespace gezel::http::test {
namespace {

using testing::HasSubstr;

class TuneHandlers : public RouterTest {};

TEST_F(TuneHandlers, AreForManagementOnly) {
  EXPECT_EQ(send(get("/api/tune")).status, 403);
  EXPECT_EQ(send(post("/api/tune", R"({"model":"a"})")).status, 403);
}

TEST_F(TuneHandlers, ShowWhatWasMeasuredOfOneModelOrOfAll) {
  EXPECT_EQ(send(get("/api/tune?model=a%3Ab", "client")).body, R"({"model":"a:b","state":"idle"})");
  EXPECT_EQ(send(get("/api/tune", "client")).body, R"({"model":"","state":"idle"})");
}

TEST_F(TuneHandlers, MeasureTheModelThatIsNamed) {
  EXPECT_EQ(send(post("/api/tune", R"({"model":"a"})", "client")).body,
            R"({"model":"a","state":"measuring"})");
  for (const char* body : {"{}", R"({"model":""})", "[]", ""})
    EXPECT_EQ(send(post("/api/tune", body, "client")).status, 400) << body;
  EXPECT_THAT(send(post("/api/tune", "{}", "client")).body, HasSubstr("model"));
}

}  // namespace
}  // namespace gezel::http::test
