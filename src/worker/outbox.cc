#include "worker/outbox.h"

#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <string>

namespace gezel::worker {
namespace {

constexpr std::chrono::milliseconds kHeartbeat{1000};
// The daemon pauses a run at 256 KiB unsent; a queue this long means that it stopped reading altogether.
constexpr std::size_t kMaxQueued = 100'000;

}  // namespace

Outbox::Outbox(int fd, std::function<std::uint64_t()> decode_steps, std::function<void()> on_broken)
    : fd_(fd),
      decode_steps_(std::move(decode_steps)),
      on_broken_(std::move(on_broken)),
      thread_([this] { run(); }) {}

Outbox::~Outbox() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void Outbox::push(Message message) {
  bool overfull = false;
  {
    const std::lock_guard lock(mutex_);
    if (broken_) return;
    queue_.push_back(std::move(message));
    // Checked here, because the writing thread may be stuck in a send that never returns.
    overfull = queue_.size() > kMaxQueued;
    broken_ = overfull;
  }
  if (overfull) return on_broken_();
  wake_.notify_one();
}

void Outbox::pong() {
  {
    const std::lock_guard lock(mutex_);
    ++pongs_;
  }
  wake_.notify_one();
}

void Outbox::flush() {
  std::unique_lock lock(mutex_);
  drained_.wait(lock, [this] { return broken_ || (queue_.empty() && !writing_); });
}

void Outbox::run() {
  auto next_heartbeat = std::chrono::steady_clock::now() + kHeartbeat;
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait_until(lock, next_heartbeat, [this] { return stopping_ || !queue_.empty() || pongs_ > 0; });
    std::deque<Message> batch;
    batch.swap(queue_);
    const int pongs = std::exchange(pongs_, 0);
    if (batch.empty() && stopping_) return;
    writing_ = true;
    lock.unlock();

    std::string frames;
    for (const Message& message : batch) {
      frames += std::visit([](const auto& body) { return protocol::encode(body); }, message);
    }
    for (int i = 0; i < pongs; ++i) frames += protocol::encode_empty(protocol::FrameType::pong);
    if (std::chrono::steady_clock::now() >= next_heartbeat) {
      protocol::Progress heartbeat;
      heartbeat.stage = "prefill";
      heartbeat.decode_steps = decode_steps_();
      frames += protocol::encode(heartbeat);
      next_heartbeat = std::chrono::steady_clock::now() + kHeartbeat;
    }
    const bool ok = write(frames);

    lock.lock();
    writing_ = false;
    if (!ok) broken_ = true;
    drained_.notify_all();
    if (!ok) {
      lock.unlock();
      on_broken_();
      return;
    }
  }
}

bool Outbox::write(std::string_view frame) {
  while (!frame.empty()) {
    const ssize_t written = ::send(fd_, frame.data(), frame.size(), MSG_NOSIGNAL);
    if (written < 0) {
      if (errno == EINTR) continue;
      return false;
    }
    frame.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

}  // namespace gezel::worker
