// testdata/api/cache_headers.jsonl: headers and what they mean, or the header that is wrong. "<N times x>"
// stands for that many characters.
#include "api/cache_headers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/json.h"

namespace gezel::api {
namespace {

std::string spelled_out(std::string text) {
  for (const std::size_t count : {512U, 513U}) {
    const std::string mark = "<" + std::to_string(count) + " times x>";
    if (const auto at = text.find(mark); at != std::string::npos)
      text.replace(at, mark.size(), std::string(count, 'x'));
  }
  return text;
}

TEST(CacheHeaders, MeanWhatTheTableSays) {
  std::ifstream table(GEZEL_TESTDATA "/api/cache_headers.jsonl");
  int cases = 0;
  for (std::string line; std::getline(table, line); ++cases) {
    const auto row = parse_json(line);
    ASSERT_TRUE(row) << line;
    const auto& object = row->get_object();
    Headers headers;
    for (const auto& header : object.at("headers").as_object())
      headers.emplace_back(header.key(), spelled_out(std::string(header.value().as_string())));
    prompt::GenerateRequest request;
    const auto read = read_cache_headers(headers, "app", request);
    if (const auto wrong = string_or(object, "wrong"); !wrong.empty()) {
      ASSERT_FALSE(read) << line;
      EXPECT_EQ(read.error().status, 400);
      EXPECT_EQ(read.error().code, "invalid_header");
      EXPECT_EQ(read.error().param, wrong);
      EXPECT_THAT(read.error().message, testing::HasSubstr("it must be"));
      continue;
    }
    ASSERT_TRUE(read) << line;
    EXPECT_EQ(request.parent_session, spelled_out(string_or(object, "parent"))) << line;
    EXPECT_EQ(request.ephemeral, bool_or(object, "ephemeral", false)) << line;
    EXPECT_EQ(request.prefix_snippets, bool_or(object, "debug", false)) << line;
  }
  EXPECT_GE(cases, 14);
}

TEST(CacheHeaders, ABreakIsToldInNumbersOnly) {
  engine::PrefixBreak found{.matched = 812, .previous = 1400, .at_message = 0, .before = "secret"};
  EXPECT_EQ(prefix_break_header(found), "matched=812, previous=1400, at_message=0");
  found.at_message.reset();
  EXPECT_EQ(prefix_break_header(found), "matched=812, previous=1400");
}

}  // namespace
}  // namespace gezel::api
