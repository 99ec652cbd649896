#include "worker/inbox.h"

#include <sys/socket.h>

#include <cerrno>

namespace gezel::worker {

Result<std::optional<protocol::Frame>> Inbox::next() {
  while (true) {
    GEZEL_TRY(auto frame, reader_.next());
    if (frame) return frame;
    const ssize_t got = ::recv(fd_, buffer_.data(), buffer_.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return std::optional<protocol::Frame>();
    reader_.feed(std::string_view(buffer_.data(), static_cast<std::size_t>(got)));
  }
}

}  // namespace gezel::worker
