// engine_llama/worker_link.h
//
// Bytes between daemon and worker on the event loop: a framed socket, and the reader of what a child prints.
// Both call only while open; close() is final and may be called from inside a callback.
#pragma once
#include <array>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "base/process.h"
#include "base/result.h"
#include "protocol/frame.h"

namespace gezel::engine_llama {

class WorkerLink : public std::enable_shared_from_this<WorkerLink> {
 public:
  struct Hooks {
    std::function<void(protocol::Frame)> frame;
    // The stream ended: with nothing when the peer closed it or the transport broke, with the reader's error
    // when it is no stream of frames. The link is closed then.
    std::function<void(std::optional<Error>)> closed;
  };
  static std::shared_ptr<WorkerLink> open(const boost::asio::any_io_executor& loop, Fd socket, Hooks hooks);

  explicit WorkerLink(const boost::asio::any_io_executor& loop) : socket_(loop) {}
  // Queues a complete frame; frames leave in order.
  void send(std::string frame);
  void close();

 private:
  void read();
  void dispatch(std::size_t size);
  void write();
  void end(std::optional<Error> error);

  boost::asio::local::stream_protocol::socket
      socket_;  // unlike a descriptor, writing to a dead peer raises no SIGPIPE
  Hooks hooks_;
  protocol::FrameReader reader_;
  std::array<char, 64 * kKiB> buffer_;
  std::deque<std::string> unsent_;
  bool writing_ = false;
};

// Reads a descriptor to its end.
class OutputReader : public std::enable_shared_from_this<OutputReader> {
 public:
  static std::shared_ptr<OutputReader> open(const boost::asio::any_io_executor& loop, Fd fd,
                                            std::function<void(std::string_view)> bytes,
                                            std::function<void()> ended);
  explicit OutputReader(const boost::asio::any_io_executor& loop) : stream_(loop) {}
  void close();

 private:
  void read();

  boost::asio::posix::stream_descriptor stream_;
  std::function<void(std::string_view)> bytes_;
  std::function<void()> ended_;
  std::array<char, 16 * kKiB> buffer_;
};

}  // namespace gezel::engine_llama
