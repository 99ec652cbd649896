#include "protocol/frame.h"

#include <gtest/gtest.h>

#include <random>

namespace gezel::protocol {
namespace {

struct Seen {
  std::vector<std::pair<FrameType, std::string>> frames;
  bool broken = false;
  bool operator==(const Seen&) const = default;
};

// Feeds `stream` in pieces whose sizes `piece_size` chooses and drains after each, as a socket reader does.
template <class PieceSize>
Seen read_in_pieces(std::string_view stream, PieceSize&& piece_size) {
  FrameReader reader;
  Seen seen;
  const auto drain = [&] {
    for (;;) {
      auto frame = reader.next();
      if (!frame) {
        seen.broken = true;
        return;
      }
      if (!*frame) return;
      seen.frames.emplace_back((*frame)->type, (*frame)->body);
    }
  };
  while (!stream.empty()) {
    const std::size_t size = std::min<std::size_t>(piece_size(), stream.size());
    reader.feed(stream.substr(0, size));
    stream.remove_prefix(size);
    drain();
  }
  drain();
  return seen;
}

Seen read_at_once(std::string_view stream) {
  return read_in_pieces(stream, [&] { return stream.size(); });
}

std::string header(std::uint32_t length, int type) {
  std::string out;
  for (int shift = 0; shift < 32; shift += 8) out.push_back(static_cast<char>(length >> shift & 0xff));
  out.push_back(static_cast<char>(type));
  return out;
}

TEST(Frame, LengthIsLittleEndianAndCountsOnlyTheBody) {
  EXPECT_EQ(encode_frame(FrameType::step, "{}"), std::string("\x02\0\0\0\x45{}", 7));
  EXPECT_EQ(encode_frame(FrameType::ping, std::string(0x010203, ' ')).substr(0, 5),
            std::string("\x03\x02\x01\0\x05", 5));
}

TEST(Frame, EncodedFramesComeBack) {
  const std::string stream = encode_frame(FrameType::hello, "{\"protocol\":1}") +
                             encode_frame(FrameType::ping, "") +
                             encode_frame(FrameType::step, std::string(100'000, 'x'));
  const Seen seen = read_at_once(stream);
  ASSERT_EQ(seen.frames.size(), 3u);
  EXPECT_EQ(seen.frames[0], std::pair(FrameType::hello, std::string("{\"protocol\":1}")));
  EXPECT_EQ(seen.frames[1], std::pair(FrameType::ping, std::string()));
  EXPECT_EQ(seen.frames[2], std::pair(FrameType::step, std::string(100'000, 'x')));
  EXPECT_FALSE(seen.broken);
}

TEST(Frame, UnknownTypesArePassedOn) {
  const Seen seen = read_at_once(encode_frame(static_cast<FrameType>(200), "?"));
  ASSERT_EQ(seen.frames.size(), 1u);
  EXPECT_EQ(static_cast<int>(seen.frames[0].first), 200);
  EXPECT_EQ(frame_name(seen.frames[0].first), "unknown");
}

TEST(Frame, AnIncompleteFrameIsNotDelivered) {
  FrameReader reader;
  reader.feed(encode_frame(FrameType::ping, "{}").substr(0, 6));
  EXPECT_FALSE(reader.next().value().has_value());
  reader.feed("}");
  EXPECT_TRUE(reader.next().value().has_value());
}

TEST(Frame, TheLargestLengthIsAccepted) {
  FrameReader reader;
  reader.feed(header(static_cast<std::uint32_t>(kMaxFrameBytes), 3));
  EXPECT_TRUE(reader.next().has_value());
}

TEST(Frame, ALengthAboveTheLimitBreaksTheStreamAfterTheFramesBeforeIt) {
  FrameReader reader;
  reader.feed(encode_frame(FrameType::pong, "{}") +
              header(static_cast<std::uint32_t>(kMaxFrameBytes) + 1, 69));
  EXPECT_EQ(reader.next().value().value().type, FrameType::pong);
  for (int again = 0; again < 3; ++again) {
    const auto frame = reader.next();
    ASSERT_FALSE(frame.has_value());
    EXPECT_EQ(frame.error().code, "protocol_error");
    EXPECT_EQ(frame.error().kind, ErrorKind::corrupt);
    EXPECT_NE(frame.error().message.find("step"), std::string::npos);
    EXPECT_NE(frame.error().message.find("100663297"), std::string::npos);
    reader.feed(encode_frame(FrameType::pong, "{}"));
  }
}

TEST(Frame, AnySplitOfTheStreamGivesTheSameFrames) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    std::string stream;
    for (int i = 0; i < 12; ++i) {
      const std::size_t size = random() % 8 == 0 ? random() % 3000 : random() % 40;
      std::string body(size, '\0');
      for (char& c : body) c = static_cast<char>(random());
      stream += encode_frame(static_cast<FrameType>(random() % 256), body);
    }
    if (round % 3 == 0) stream += header(0xffffffffu, 1) + "rest";
    if (round % 3 == 1) stream.resize(stream.size() - random() % 20);
    const Seen expected = read_at_once(stream);
    EXPECT_EQ(read_in_pieces(stream, [] { return 1; }), expected);
    EXPECT_EQ(read_in_pieces(stream, [&] { return 1 + random() % 17; }), expected);
    EXPECT_EQ(read_in_pieces(stream, [&] { return 1 + random() % 4000; }), expected);
  }
}

TEST(Frame, TheSenderIsToldWhenAFrameIsTooLarge) {
  EXPECT_TRUE(check_frame_size(std::string(100, 'x')).has_value());
  const auto refused = check_frame_size(std::string(kFrameHeaderBytes + kMaxFrameBytes + 1, 'x'));
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, "request_too_large");
  EXPECT_EQ(refused.error().kind, ErrorKind::too_large);
}

TEST(Frame, EveryTypeHasAName) {
  for (const int type :
       {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 65, 66, 67, 68, 69, 70, 71, 72, 73, 74, 75, 76}) {
    EXPECT_NE(frame_name(static_cast<FrameType>(type)), "unknown") << type;
  }
}

}  // namespace
}  // namespace gezel::protocol
