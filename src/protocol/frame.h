// protocol/frame.h
//
// Frames between daemon and worker over their socket pair (spec 30 section 13): u32 little-endian length of what follows
// the type byte, u8 type, body (UTF-8 JSON). Both sides treat what they read as hostile.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"

namespace gezel::protocol {

inline constexpr int kProtocolVersion = 1;
inline constexpr Bytes kMaxFrameBytes = 96 * kMiB;

enum class FrameType : std::uint8_t {
  // daemon to worker
  hello = 1, load = 2, generate = 3, cancel = 4, ping = 5, stats = 6, drain = 7, prefill = 8, cache = 9, tokens = 10,
  embed = 11, control = 12,
  // worker to daemon
  hello_reply = 65, phase = 66, ready = 67, started = 68, step = 69, progress = 70, done = 71, failed = 72, pong = 73,
  stats_reply = 74, tokens_reply = 75, embedding = 76,
};

struct Frame {
  FrameType type{};
  std::string body;
};

std::string encode_frame(FrameType type, std::string_view body);

// Cuts a byte stream into frames, however it was split. A length above the limit is `protocol_error`, after which the
// stream is unusable. Unknown types are passed on; the receiver decides.
class FrameReader {
 public:
  void feed(std::string_view bytes) { buffer_.append(bytes); }
  Result<std::optional<Frame>> next();

 private:
  std::string buffer_;
  std::size_t offset_ = 0;  // consumed part of buffer_
};

}  // namespace gezel::protocol
