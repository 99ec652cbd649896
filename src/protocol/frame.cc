#include "protocol/frame.h"

#include <fmt/format.h>

#include <algorithm>

namespace gezel::protocol {
namespace {

// A body's memory is set aside up front only this far; a larger one doubles as its bytes arrive.
constexpr std::size_t kReserveBytes = 256 * kKiB;

std::uint32_t little_endian(const unsigned char* bytes) {
  return static_cast<std::uint32_t>(bytes[0]) | static_cast<std::uint32_t>(bytes[1]) << 8 |
         static_cast<std::uint32_t>(bytes[2]) << 16 | static_cast<std::uint32_t>(bytes[3]) << 24;
}

}  // namespace

std::string_view frame_name(FrameType type) {
  switch (type) {
    case FrameType::hello:
      return "hello";
    case FrameType::load:
      return "load";
    case FrameType::generate:
      return "generate";
    case FrameType::cancel:
      return "cancel";
    case FrameType::ping:
      return "ping";
    case FrameType::stats:
      return "stats";
    case FrameType::drain:
      return "drain";
    case FrameType::prefill:
      return "prefill";
    case FrameType::cache:
      return "cache";
    case FrameType::tokens:
      return "tokens";
    case FrameType::embed:
      return "embed";
    case FrameType::control:
      return "control";
    case FrameType::measure:
      return "measure";
    case FrameType::measured:
      return "measured";
    case FrameType::hello_reply:
      return "hello_reply";
    case FrameType::phase:
      return "phase";
    case FrameType::ready:
      return "ready";
    case FrameType::started:
      return "started";
    case FrameType::step:
      return "step";
    case FrameType::progress:
      return "progress";
    case FrameType::done:
      return "done";
    case FrameType::failed:
      return "failed";
    case FrameType::pong:
      return "pong";
    case FrameType::stats_reply:
      return "stats_reply";
    case FrameType::tokens_reply:
      return "tokens_reply";
    case FrameType::embedding:
      return "embedding";
  }
  return "unknown";
}

std::string encode_frame(FrameType type, std::string_view body) {
  std::string frame;
  frame.reserve(kFrameHeaderBytes + body.size());
  const auto size = static_cast<std::uint32_t>(body.size());
  for (int shift = 0; shift < 32; shift += 8) frame.push_back(static_cast<char>(size >> shift & 0xff));
  frame.push_back(static_cast<char>(type));
  frame.append(body);
  return frame;
}

Result<> check_frame_size(std::string_view frame) {
  if (frame.size() <= kFrameHeaderBytes + kMaxFrameBytes) return {};
  return fail(
      ErrorKind::too_large, "request_too_large",
      fmt::format("The request takes {} on its way to the engine; the limit is {}. Send a shorter prompt.",
                  format_bytes(frame.size() - kFrameHeaderBytes), format_bytes(kMaxFrameBytes)));
}

void FrameReader::feed(std::string_view bytes) {
  while (!bytes.empty() && !broken_) {
    if (header_size_ < kFrameHeaderBytes) {
      const std::size_t taken = std::min(kFrameHeaderBytes - header_size_, bytes.size());
      std::copy_n(bytes.begin(), taken, header_.begin() + static_cast<std::ptrdiff_t>(header_size_));
      header_size_ += taken;
      bytes.remove_prefix(taken);
      if (header_size_ < kFrameHeaderBytes) return;

      body_size_ = little_endian(header_.data());
      current_.type = static_cast<FrameType>(header_[4]);
      if (body_size_ > kMaxFrameBytes) {
        broken_ = Error{
            ErrorKind::corrupt, "protocol_error",
            fmt::format("A {} frame (type {}) announces {} bytes; the limit is {}. The connection cannot be "
                        "used any further.",
                        frame_name(current_.type), header_[4], body_size_, kMaxFrameBytes),
            "length"};
        return;
      }
      current_.body.reserve(std::min(body_size_, kReserveBytes));
    }
    const std::size_t taken = std::min(body_size_, bytes.size());
    current_.body.append(bytes.substr(0, taken));
    body_size_ -= taken;
    bytes.remove_prefix(taken);
    if (body_size_ > 0) return;
    complete_.push_back(std::move(current_));
    current_ = {};
    header_size_ = 0;
  }
}

Result<std::optional<Frame>> FrameReader::next() {
  if (!complete_.empty()) {
    Frame frame = std::move(complete_.front());
    complete_.pop_front();
    return frame;
  }
  if (broken_) return std::unexpected(*broken_);
  return std::nullopt;
}

}  // namespace gezel::protocol
