#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>

#include "http/os.h"

namespace gezel::http::os {

int process_id() {
  return ::getpid();
}

void ignore_broken_pipes() {
  std::signal(SIGPIPE, SIG_IGN);
}

void raise_descriptor_limit() {
  constexpr rlim_t kEnough = 8192;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= kEnough) return;
  limit.rlim_cur = std::min(kEnough, limit.rlim_max);
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

Fd duplicate_stdin() {
  return Fd(::dup(STDIN_FILENO));
}

bool is_broken(int socket) {
  pollfd state{.fd = socket, .events = 0, .revents = 0};
  return ::poll(&state, 1, 0) > 0 && (state.revents & (POLLERR | POLLHUP | POLLNVAL)) != 0;
}

}  // namespace gezel::http::os
