// cli/fake_daemon.h
//
// For tests: a listener on a loopback port that answers each connection with bytes given beforehand, and a
// home folder whose runtime files point to it.
#pragma once
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/write.hpp>
#include <filesystem>
#include <functional>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/test_folder.h"
#include "cli/environment.h"

namespace gezel::cli {

struct SeenRequest {
  std::string method, target, head, body;
};

// Answers on a thread of its own until destroyed. `answer` returns the raw reply, in pieces that are written
// one by one.
class FakeDaemon {
 public:
  using Answer = std::function<std::vector<std::string>(const SeenRequest&)>;

  explicit FakeDaemon(Answer answer)
      : answer_(std::move(answer)),
        acceptor_(loop_, {boost::asio::ip::address_v4::loopback(), 0}),
        thread_([this] { serve(); }) {}

  ~FakeDaemon() {
    // A connection of our own wakes the blocking accept.
    stopping_ = true;
    boost::system::error_code ignored;
    boost::asio::io_context loop;
    boost::asio::ip::tcp::socket socket(loop);
    socket.connect({boost::asio::ip::address_v4::loopback(), port()}, ignored);
    thread_.join();
  }

  std::uint16_t port() const { return acceptor_.local_endpoint().port(); }
  std::vector<SeenRequest> seen() {
    const std::scoped_lock lock(mutex_);
    return seen_;
  }

 private:
  void serve() {
    for (;;) {
      boost::system::error_code error;
      boost::asio::ip::tcp::socket socket(loop_);
      acceptor_.accept(socket, error);
      if (stopping_ || error) return;
      const SeenRequest request = read(socket);
      {
        const std::scoped_lock lock(mutex_);
        seen_.push_back(request);
      }
      for (const std::string& piece : answer_(request)) {
        boost::asio::write(socket, boost::asio::buffer(piece), error);
        if (error) break;
      }
    }
  }

  static SeenRequest read(boost::asio::ip::tcp::socket& socket) {
    SeenRequest request;
    boost::system::error_code error;
    std::string text;
    const std::size_t head =
        boost::asio::read_until(socket, boost::asio::dynamic_buffer(text), "\r\n\r\n", error);
    request.head = text.substr(0, head);
    request.body = text.substr(head);
    std::istringstream words(request.head);
    words >> request.method >> request.target;
    std::size_t length = 0;
    if (const std::size_t at = request.head.find("Content-Length: "); at != std::string::npos) {
      length = std::stoul(request.head.substr(at + 16));
    }
    std::vector<char> buffer(4096);
    while (request.body.size() < length && !error) {
      const std::size_t got = socket.read_some(boost::asio::buffer(buffer), error);
      request.body.append(buffer.data(), got);
    }
    return request;
  }

  Answer answer_;
  boost::asio::io_context loop_;
  boost::asio::ip::tcp::acceptor acceptor_;
  std::mutex mutex_;
  std::vector<SeenRequest> seen_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

std::string json_reply(int status, std::string_view body);
std::vector<std::string> event_reply(const std::vector<std::string>& events);

// An environment with string streams and an empty home that is removed at the end.
class TestWorld {
 public:
  TestWorld();
  ~TestWorld();
  // Writes runtime files as if a daemon ran there; its pid is ours, so that it counts as alive.
  void point_to(const FakeDaemon& daemon);
  // Bytes that are on standard input.
  void pipe_in(std::string_view text);
  int run(const std::vector<std::string>& words);

  std::ostringstream out, err;
  Environment env;

 private:
  TestFolder home_;
  SystemClock clock_;
  SystemEntropy entropy_;
};

}  // namespace gezel::cli
