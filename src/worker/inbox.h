// worker/inbox.h
//
// The way in: blocking reads of frames from the daemon's socket.
#pragma once
#include <optional>
#include <vector>

#include "base/result.h"
#include "protocol/frame.h"

namespace gezel::worker {

class Inbox {
 public:
  explicit Inbox(int fd) : fd_(fd) {}
  // The next frame; nothing when the daemon is gone; `protocol_error` when the stream is damaged.
  Result<std::optional<protocol::Frame>> next();

 private:
  int fd_;
  protocol::FrameReader reader_;
  std::vector<char> buffer_ = std::vector<char>(64 * kKiB);
};

}  // namespace gezel::worker
