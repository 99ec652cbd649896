// protocol/frame.h
//
// Frames between daemon and worker over their socket pair (spec 30 section 13): u32 little-endian length of
// what follows the type byte, u8 type, body (UTF-8 JSON). Both sides treat what they read as hostile.
#pragma once
#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"

namespace gezel::protocol {

inline constexpr int kProtocolVersion = 1;
inline constexpr std::size_t kFrameHeaderBytes = 5;
inline constexpr Bytes kMaxFrameBytes = 96 * kMiB;  // of the body

enum class FrameType : std::uint8_t {
  // daemon to worker
  hello = 1,
  load = 2,
  generate = 3,
  cancel = 4,
  ping = 5,
  stats = 6,
  drain = 7,
  prefill = 8,
  cache = 9,
  tokens = 10,
  embed = 11,
  control = 12,
  measure = 20,
  // worker to daemon
  hello_reply = 65,
  phase = 66,
  ready = 67,
  started = 68,
  step = 69,
  progress = 70,
  done = 71,
  failed = 72,
  pong = 73,
  stats_reply = 74,
  tokens_reply = 75,
  embedding = 76,
  measured = 84,
};

// "hello", "step", …; "unknown" for a number that is none of them.
std::string_view frame_name(FrameType type);

struct Frame {
  FrameType type{};
  std::string body;
};

std::string encode_frame(FrameType type, std::string_view body);

// Refuses a complete frame that the other side would not accept (`too_large`, naming size and limit). Only
// what a client decides the size of can be that large: a sender checks `generate` and `tokens`.
Result<> check_frame_size(std::string_view frame);

// Cuts a byte stream into frames, however it was split. Bytes go straight into the body they belong to, and
// memory grows with what arrived, never with what a header announces. A length above the limit is
// `protocol_error`: the frames before it are still delivered, then every call returns that error. Unknown
// types are passed on; the receiver decides.
class FrameReader {
 public:
  void feed(std::string_view bytes);
  Result<std::optional<Frame>> next();

 private:
  std::array<unsigned char, kFrameHeaderBytes> header_{};
  std::size_t header_size_ = 0;  // bytes of the header that arrived
  std::size_t body_size_ = 0;    // bytes of the body still to come; valid once the header is complete
  Frame current_;
  std::deque<Frame> complete_;
  std::optional<Error> broken_;
};

}  // namespace gezel::protocol
