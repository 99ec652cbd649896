#include "http/replies.h"

#include <gmock/gmock.h>

#include "http/test_support.h"

namespace gezel::http::test {
namespace {

using testing::HasSubstr;

class Replies : public RouterTest {};

// One route whose body may be left out, one whose body may not.
constexpr const char* kOptional = "/api/quarantine/clear";
constexpr const char* kRequired = "/api/default-model";

TEST_F(Replies, ABodyMayBeLeftOutWhereItSaysNothingNew) {
  EXPECT_EQ(send(post(kOptional, "", "client")).status, 200);
  EXPECT_THAT(send(post(kRequired, "", "client")).body, HasSubstr("invalid_json"));
}

TEST_F(Replies, ABodyThatIsNoObjectIsNamed) {
  for (const char* path : {kOptional, kRequired}) {
    for (const char* body : {"[]", "7", "null", "\"text\""}) {
      const auto& reply = send(post(path, body, "client"));
      EXPECT_EQ(reply.status, 400) << path << " " << body;
      EXPECT_THAT(reply.body, HasSubstr("the body must be a JSON object")) << path << " " << body;
    }
  }
}

TEST_F(Replies, BrokenJsonIsNamedWithItsPlace) {
  for (const char* path : {kOptional, kRequired})
    EXPECT_THAT(send(post(path, R"({"model":)", "client")).body, HasSubstr("byte 9")) << path;
}

TEST_F(Replies, AQueryThatMustBeThereIsNamed) {
  for (const char* path : {"/api/stats", "/api/stats?model=", "/api/stats?mode=x"})
    EXPECT_THAT(send(get(path, "client")).body, HasSubstr("?model=<id>")) << path;
  EXPECT_EQ(send(get("/api/stats?model=llama-cpp%3Am", "client")).body, R"({"model":"llama-cpp:m"})");
}

TEST(EventStream, IsNeitherKeptNorCollectedOnItsWay) {
  const auto headers = event_stream_headers();
  EXPECT_EQ(api::find_header(headers, "content-type"), "text/event-stream");
  EXPECT_EQ(api::find_header(headers, "cache-control"), "no-cache");
  EXPECT_EQ(api::find_header(headers, "x-accel-buffering"), "no");
}

}  // namespace
}  // namespace gezel::http::test
