// worker/outbox.h
//
// The way out: one thread that encodes and writes frames, so that the decode thread never waits for the
// socket. It also sends the heartbeat, which therefore goes on while a step is being computed.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <variant>

#include "protocol/messages.h"

namespace gezel::worker {

class Outbox {
 public:
  using Message = std::variant<protocol::Phase, protocol::Ready, protocol::Started, protocol::Step,
                               protocol::Progress, protocol::Done, protocol::Failed, protocol::Stats,
                               protocol::TokensReply, protocol::CacheReply>;

  // `decode_steps` is read for the heartbeat. `on_broken` is called once, on whichever thread notices, when
  // the daemon is gone or when so much waits for it that it must have stopped reading.
  Outbox(int fd, std::function<std::uint64_t()> decode_steps, std::function<void()> on_broken);
  ~Outbox();
  Outbox(const Outbox&) = delete;
  Outbox& operator=(const Outbox&) = delete;

  void push(Message message);
  void pong();
  // Returns when everything pushed so far was written, or the socket broke.
  void flush();

 private:
  void run();
  bool write(std::string_view frame);

  const int fd_;
  const std::function<std::uint64_t()> decode_steps_;
  const std::function<void()> on_broken_;
  std::mutex mutex_;
  std::condition_variable wake_, drained_;
  std::deque<Message> queue_;
  int pongs_ = 0;
  bool writing_ = false, stopping_ = false, broken_ = false;
  std::thread thread_;
};

}  // namespace gezel::worker
