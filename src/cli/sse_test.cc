#include "cli/sse.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gezel::cli {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> read_all(std::string_view text, std::size_t piece) {
  SseReader reader;
  std::vector<std::string> out;
  for (std::size_t at = 0; at < text.size(); at += piece) {
    EXPECT_TRUE(reader.feed(text.substr(at, piece), [&](const SseEvent& event) {
      out.push_back(event.type.empty() ? event.data : event.type + "=" + event.data);
      return true;
    }));
  }
  return out;
}

constexpr std::string_view kStream =
    "\xef\xbb\xbf"
    "data: one\n\n: keepalive\n\ndata:two\r\n\r\ndata: a\rdata: b\r\revent: error\ndata: {\"x\": 1}\nid: "
    "7\n\n"
    "event: empty\n\ndata\n\ndata: unfinished\n";

TEST(SseReader, GivesTheSameEventsForEverySplit) {
  const auto whole = read_all(kStream, kStream.size());
  EXPECT_THAT(whole, ElementsAre("one", "two", "a\nb", "error={\"x\": 1}", ""));
  for (std::size_t piece = 1; piece < kStream.size(); ++piece)
    EXPECT_EQ(read_all(kStream, piece), whole) << piece;
}

TEST(SseReader, StopsWhenTheReceiverHasEnough) {
  SseReader reader;
  int count = 0;
  ASSERT_TRUE(reader.feed("data: 1\n\ndata: 2\n\n", [&](const SseEvent&) { return ++count < 1; }));
  EXPECT_EQ(count, 1);
}

TEST(SseReader, RefusesAnEventAboveTheLimit) {
  SseReader reader;
  const auto never = [](const SseEvent&) { return true; };
  const std::string line = "data: " + std::string(1 << 20, 'x') + "\n";
  Result<> outcome;
  for (int i = 0; i < 9 && outcome; ++i) outcome = reader.feed(line, never);
  ASSERT_FALSE(outcome);
  EXPECT_THAT(outcome.error().message, ::testing::HasSubstr("8.0 MiB"));
}

}  // namespace
}  // namespace gezel::cli
