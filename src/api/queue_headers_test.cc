// testdata/api/queue_headers.jsonl: headers and what they mean, or the header that is wrong.
#include "api/queue_headers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/json.h"

namespace gezel::api {
namespace {

TEST(QueueHeaders, MeanWhatTheTableSays) {
  std::ifstream table(GEZEL_TESTDATA "/api/queue_headers.jsonl");
  int cases = 0;
  for (std::string line; std::getline(table, line); ++cases) {
    const auto row = parse_json(line);
    ASSERT_TRUE(row) << line;
    const auto& object = row->get_object();
    Headers headers;
    for (const auto& header : object.at("headers").as_object())
      headers.emplace_back(header.key(), header.value().as_string());
    prompt::GenerateRequest request;
    const auto read = read_queue_headers(headers, request);
    if (const auto wrong = string_or(object, "wrong"); !wrong.empty()) {
      ASSERT_FALSE(read) << line;
      EXPECT_EQ(read.error().status, 400);
      EXPECT_EQ(read.error().code, "invalid_header");
      EXPECT_EQ(read.error().param, wrong);
      EXPECT_THAT(read.error().message, testing::HasSubstr("it must be"));
      continue;
    }
    ASSERT_TRUE(read) << line;
    EXPECT_EQ(static_cast<int>(request.lane), int_or(object, "lane", 0)) << line;
    EXPECT_EQ(request.queue.ambient, bool_or(object, "ambient", false)) << line;
    EXPECT_EQ(request.queue.wait_limit.value_or(Millis(0)).count(), int_or(object, "wait_ms", 0)) << line;
  }
  EXPECT_GE(cases, 12);
}

}  // namespace
}  // namespace gezel::api
