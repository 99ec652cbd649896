#include "downloads/xet.h"

#include <gmock/gmock.h>

#include "base/files.h"
#include "base/json.h"
#include "downloads/lz4.h"
#include "downloads/xet_test_store.h"

namespace gezel::downloads::xet {
namespace {

using testing::chunk_of;
using ::testing::ElementsAre;
using testing::lz4_frame_of;

std::string bytes_of(std::string_view hex) {
  std::string out;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
    out += static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16));
  return out;
}

struct Lz4Case {
  std::string name, frame, plain;
};
std::vector<Lz4Case> lz4_cases() {
  std::vector<Lz4Case> out;
  const auto table = parse_json(read_file(GEZEL_TESTDATA "/downloads/lz4.json").value()).value();
  for (const auto& each : table.as_array()) {
    const auto& row = each.as_object();
    Lz4Case next{string_or(row, "name"), bytes_of(string_or(row, "frame")),
                 bytes_of(string_or(row, "plain"))};
    if (const auto* repeat = object_at(row, "repeat")) {
      const std::string unit = bytes_of(string_or(*repeat, "unit"));
      const auto size = static_cast<std::size_t>(int_or(*repeat, "bytes", 0));
      while (next.plain.size() < size) next.plain += unit;
      next.plain.resize(size);
    }
    out.push_back(std::move(next));
  }
  return out;
}

TEST(Lz4, ReadsWhatTheReferenceImplementationWrote) {
  for (const auto& each : lz4_cases()) {
    const auto plain = read_lz4_frame(each.frame, each.plain.size());
    ASSERT_TRUE(plain) << each.name << ": " << plain.error().message;
    EXPECT_EQ(*plain, each.plain) << each.name;
  }
}

TEST(Lz4, RefusesAFrameThatHoldsMoreOrLessThanWasSaid) {
  for (const auto& each : lz4_cases()) {
    EXPECT_FALSE(read_lz4_frame(each.frame, each.plain.size() + 1)) << each.name;
    if (!each.plain.empty()) EXPECT_FALSE(read_lz4_frame(each.frame, each.plain.size() - 1)) << each.name;
  }
}

TEST(Lz4, RefusesEveryFrameThatIsCutShortOrGoesOn) {
  for (const auto& each : lz4_cases()) {
    for (std::size_t size = 0; size < each.frame.size(); ++size)
      EXPECT_FALSE(read_lz4_frame(each.frame.substr(0, size), each.plain.size())) << each.name << ' ' << size;
    EXPECT_FALSE(read_lz4_frame(each.frame + "x", each.plain.size())) << each.name;
  }
}

TEST(Lz4, NeverWritesMoreThanWasSaid) {
  for (const auto& each : lz4_cases()) {
    for (std::size_t i = 0; i < std::min<std::size_t>(each.frame.size(), 400); ++i) {
      for (const char flip : {'\x01', '\x10', '\x7f', '\xff'}) {
        std::string frame = each.frame;
        frame[i] = static_cast<char>(frame[i] ^ flip);
        const auto plain = read_lz4_frame(frame, each.plain.size());
        if (plain) EXPECT_EQ(plain->size(), each.plain.size());
      }
    }
  }
}

Result<std::vector<std::string>> unpack(std::string_view data, std::size_t piece) {
  std::vector<std::string> out;
  ChunkReader reader;
  for (std::size_t at = 0; at < data.size(); at += piece) {
    GEZEL_CHECK(reader.feed(data.substr(at, piece), [&](std::uint32_t, std::string_view bytes) -> Result<> {
      out.emplace_back(bytes);
      return {};
    }));
  }
  if (!reader.complete()) out.emplace_back("(incomplete)");
  return out;
}

TEST(Chunks, AreReadInEverySchemeAndEverySplit) {
  const std::string data = chunk_of("plain", 0) + chunk_of("packed", 1) + chunk_of("grouped by bytes", 2) +
                           chunk_of("123", 2) + chunk_of("", 0);
  for (std::size_t piece = 1; piece <= data.size(); ++piece) {
    const auto chunks = unpack(data, piece);
    ASSERT_TRUE(chunks) << chunks.error().message;
    EXPECT_THAT(*chunks, ElementsAre("plain", "packed", "grouped by bytes", "123", "")) << piece;
  }
  EXPECT_THAT(*unpack(data.substr(0, data.size() - 1), 7),
              ElementsAre("plain", "packed", "grouped by bytes", "123", "(incomplete)"));
}

TEST(Chunks, WhatIsNotKnownIsRefused) {
  std::string longer = chunk_of("abc", 0);
  longer[5] = 4;
  for (const auto& data :
       {chunk_of("x", 0, 1), chunk_of("x", 3), longer, chunk_of("x", 0).replace(4, 1, "\x01")})
    EXPECT_EQ(unpack(data, data.size()).error().code, "bad_chunk");
}

std::string description(std::string_view terms, std::string_view segments, std::string_view skip = "0") {
  return fmt::format(R"({{"offset_into_first_range":{},"terms":[{}],"fetch_info":{{{}}}}})", skip, terms,
                     segments);
}
constexpr std::string_view kSegment =
    R"("a":[{"range":{"start":0,"end":4},"url":"https://s.example/a","url_range":{"start":10,"end":99}}])";
std::string term(int begin, int end, int bytes, std::string_view hash = "a") {
  return fmt::format(R"({{"hash":"{}","unpacked_length":{},"range":{{"start":{},"end":{}}}}})", hash, bytes,
                     begin, end);
}

TEST(Reconstructions, SayWhichChunksOfWhichSegmentsTheFileIsMadeOf) {
  const auto plan =
      parse_reconstruction(description(term(1, 3, 200) + "," + term(0, 4, 400), kSegment, "50"));
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->skip, 50U);
  EXPECT_EQ(plan->total, 550U);
  ASSERT_EQ(plan->terms.size(), 2U);
  EXPECT_EQ(plan->terms[0].chunks, (Chunks{1, 3}));
  const auto& segment = plan->segments[plan->terms[1].segment];
  EXPECT_EQ(segment.url, "https://s.example/a");
  EXPECT_EQ(segment.first, 10U);
  EXPECT_EQ(segment.last, 99U);
}

TEST(Reconstructions, ThatCannotBeFollowedAreRefused) {
  for (const auto& text :
       {std::string("[]"), std::string("{}"), description("", kSegment),
        description(term(0, 5, 10), kSegment), description(term(2, 2, 10), kSegment),
        description(term(0, 1, 0), kSegment), description(term(0, 1, 10, "b"), kSegment),
        description(term(0, 1, 10), kSegment, "10"), description(term(0, 1, 10), kSegment, "-1"),
        description(term(0, 1, 10), R"("a":7)"),
        description(term(0, 1, 10),
                    R"("a":[{"range":{"start":0,"end":4},"url":"u","url_range":{"start":9,"end":8}}])"),
        description(R"({"hash":"a","unpacked_length":4000000000000,"range":{"start":0,"end":1}})", kSegment)})
    EXPECT_EQ(parse_reconstruction(text).error().code, "bad_reconstruction") << text;
}

TEST(Access, NeedsAPlaceAndAToken) {
  const auto access = parse_access(R"({"casUrl":"https://cas.example/","accessToken":"t","exp":1})");
  ASSERT_TRUE(access);
  EXPECT_EQ(access->url, "https://cas.example");
  EXPECT_EQ(access->token, "t");
  for (const char* text : {"", "{}", R"({"casUrl":"https://cas.example"})", R"({"accessToken":"t"})"})
    EXPECT_FALSE(parse_access(text)) << text;
}

}  // namespace
}  // namespace gezel::downloads::xet
