#include "downloads/response.h"

#include <gtest/gtest.h>

#include "base/files.h"
#include "base/json.h"

namespace gezel::downloads {
namespace {

ResponseHead head(int status, std::string_view range = {}, std::optional<Bytes> length = {}) {
  ResponseHead out;
  out.status = status;
  out.content_range = parse_content_range(range);
  out.content_length = length;
  return out;
}

TEST(ContentRange, ReadsItsThreeForms) {
  const auto full = parse_content_range("bytes 5-9/20");
  ASSERT_TRUE(full);
  EXPECT_EQ(full->first, 5U);
  EXPECT_EQ(full->total, 20U);
  EXPECT_EQ(parse_content_range("bytes 5-9/*")->total, std::nullopt);
  EXPECT_EQ(parse_content_range("bytes */900")->total, 900U);
}

TEST(ContentRange, RefusesWhatIsNone) {
  for (const char* text :
       {"", "bytes", "bytes 5-", "bytes 9-5/20", "bytes 5-9/9", "bytes 5-9/x", "bytes -5-9/20",
        "items 5-9/20", "bytes 5-9/20 ", "bytes 99999999999999999999999-1/2"})
    EXPECT_FALSE(parse_content_range(text)) << text;
}

TEST(LinkTarget, IsThatOfTheFirstLinkWithTheRelation) {
  const auto cases = parse_json(read_file(GEZEL_TESTDATA "/downloads/links.json").value()).value();
  for (const auto& each : cases.as_array()) {
    const auto& row = each.as_object();
    const std::string header = string_or(row, "header");
    EXPECT_EQ(link_target(header, "next"), string_or(row, "next")) << header;
  }
}

TEST(Response, Case23A200StartsOver) {
  const auto decision = decide(head(200, {}, 5'000'000), 1'000'000);
  EXPECT_EQ(decision.action, Action::restart);
  EXPECT_EQ(decision.total, 5'000'000U);
}

TEST(Response, Case24A416CutsAPartialThatIsTooLong) {
  const auto decision = decide(head(416, "bytes */900"), 1000);
  EXPECT_EQ(decision.action, Action::complete);
  EXPECT_EQ(decision.truncate_to, 900U);
}

TEST(Response, A416OfACompleteOrUnknownFileSucceeds) {
  for (const char* range : {"bytes */1000", "bytes */*", ""}) {
    const auto decision = decide(head(416, range), 1000);
    EXPECT_EQ(decision.action, Action::complete) << range;
    EXPECT_EQ(decision.truncate_to, 1000U) << range;
  }
}

TEST(Response, A416ForARangeThatIsThereStartsOver) {
  EXPECT_EQ(decide(head(416, "bytes */5000"), 1000).action, Action::retry_without_range);
  EXPECT_EQ(decide(head(416), 0).action, Action::fail);
}

TEST(Response, A206IsAppendedAndSaysTheSize) {
  EXPECT_EQ(decide(head(206, "bytes 1000-4999/5000", 4000), 1000).total, 5000U);
  EXPECT_EQ(decide(head(206, "bytes 1000-4999/*", 4000), 1000).total, 5000U);
  EXPECT_EQ(decide(head(206, {}, 4000), 1000).action, Action::append);
}

TEST(Response, A206FromElsewhereStartsOver) {
  EXPECT_EQ(decide(head(206, "bytes 0-4999/5000"), 1000).action, Action::retry_without_range);
}

TEST(Response, TransientAndFatalStatuses) {
  for (const int status : {408, 429, 500, 502, 503, 599})
    EXPECT_EQ(decide(head(status), 0).action, Action::retry) << status;
  for (const int status : {400, 401, 403, 404, 410, 204, 304, 100})
    EXPECT_EQ(decide(head(status), 0).action, Action::fail) << status;
  EXPECT_EQ(decide(head(403), 0).error.code, "gated_or_denied");
  EXPECT_EQ(decide(head(401), 0).error.code, "gated_or_denied");
  EXPECT_EQ(decide(head(404), 0).error.code, "file_not_on_host");
}

TEST(Response, ARedirectNeedsALocation) {
  auto redirect = head(302);
  EXPECT_EQ(decide(redirect, 0).action, Action::fail);
  redirect.location = "/x";
  EXPECT_EQ(decide(redirect, 0).action, Action::redirect);
}

}  // namespace
}  // namespace gezel::downloads
