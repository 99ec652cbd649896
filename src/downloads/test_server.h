// downloads/test_server.h
//
// For tests: a real HTTP server on a loopback port that misbehaves as told. Every request is answered by the
// test's own function, which may send less than it promises, stop in mid-body, or never go on.
#pragma once
#include <fmt/format.h>
#include <poll.h>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>

#include <atomic>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/ids.h"
#include "downloads/cancellation.h"

namespace gezel::downloads::testing {

// A clock that server and client threads may share.
class SharedClock final : public Clock {
 public:
  MonotonicTime now() const override { return MonotonicTime(Millis(millis_.load())); }
  WallTime wall_now() const override {
    return WallTime(std::chrono::seconds(1'790'000'000) + Millis(millis_.load()));
  }
  void advance(Millis by) { millis_ += by.count(); }

 private:
  std::atomic<std::int64_t> millis_ = 3'600'000;
};

// Waits by moving the clock, and remembers for how long.
class FakeWaiter final : public Waiter {
 public:
  explicit FakeWaiter(SharedClock& clock) : clock_(clock) {}
  bool wait(Millis delay, const Cancellation& cancellation) override {
    delays.push_back(delay);
    clock_.advance(delay);
    if (on_wait) on_wait();
    return !cancellation.cancelled();
  }
  std::vector<Millis> delays;
  std::function<void()> on_wait;

 private:
  SharedClock& clock_;
};

class MiddleEntropy final : public Entropy {
 public:
  void fill(unsigned char* out, std::size_t size) override {
    for (std::size_t i = 0; i < size; ++i) out[i] = static_cast<unsigned char>(next_++);
  }

 private:
  std::atomic<unsigned> next_ = 1;
};

struct ServedRequest {
  std::string target, authorization, user_agent;
  std::optional<Bytes> from, to;  // of "Range: bytes=<from>-<to>"
  std::string unless_etag;
};

struct Reply {
  int status = 200;
  std::vector<std::pair<std::string, std::string>> headers;  // besides Content-Length and Connection
  std::string body;
  std::optional<Bytes> promised;     // Content-Length, when it is not the body's
  bool chunked = false;              // no Content-Length; the end of the connection ends the body
  std::function<void()> in_head;     // before one more line of the head, until the client goes away
  std::function<void()> after_body;  // again and again until the client goes away
};

// What a good server answers: the file, or the rest of it.
inline Reply serve(const std::string& content, const ServedRequest& request) {
  Reply out;
  if (!request.from) {
    out.body = content;
  } else if (*request.from >= content.size()) {
    out.status = 416;
    out.headers.emplace_back("Content-Range", fmt::format("bytes */{}", content.size()));
  } else {
    out.status = 206;
    const Bytes last = std::min<Bytes>(request.to.value_or(content.size()), content.size() - 1);
    out.body = content.substr(*request.from, last + 1 - *request.from);
    out.headers.emplace_back("Content-Range",
                             fmt::format("bytes {}-{}/{}", *request.from, last, content.size()));
  }
  return out;
}

// The same, breaking off after `bytes` of the body.
inline Reply serve_until(const std::string& content, const ServedRequest& request, std::size_t bytes) {
  Reply out = serve(content, request);
  out.promised = out.body.size();
  if (out.body.size() > bytes) out.body.resize(bytes);
  return out;
}

inline Reply redirect_to(std::string location, int status = 302) {
  Reply out;
  out.status = status;
  out.headers.emplace_back("Location", std::move(location));
  return out;
}

class TestServer {
 public:
  using Handler = std::function<Reply(const ServedRequest&)>;

  explicit TestServer(Handler handler)
      : handler_(std::move(handler)), acceptor_(context_, {boost::asio::ip::address_v4::loopback(), 0}) {
    port_ = acceptor_.local_endpoint().port();
    thread_ = std::thread([this] { accept(); });
  }
  ~TestServer() {
    stopping_ = true;
    // Wakes accept() up; the connections of clients that are gone end by themselves.
    boost::system::error_code ignored;
    boost::asio::ip::tcp::socket wake(context_);
    wake.connect({boost::asio::ip::address_v4::loopback(), port_}, ignored);
    thread_.join();
    for (auto& connection : connections_) connection.join();
  }

  std::string url(std::string_view path = "/", std::string_view host = "127.0.0.1") const {
    return fmt::format("http://{}:{}{}", host, port_, path);
  }
  std::vector<ServedRequest> requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
  }

 private:
  using Socket = boost::asio::ip::tcp::socket;

  void accept() {
    while (!stopping_) {
      Socket socket(context_);
      boost::system::error_code error;
      acceptor_.accept(socket, error);
      if (error || stopping_) return;
      connections_.emplace_back([this, moved = std::move(socket)]() mutable { answer(moved); });
    }
  }

  void answer(Socket& socket) {
    namespace http = boost::beast::http;
    boost::beast::flat_buffer buffer;
    http::request<http::empty_body> request;
    boost::system::error_code error;
    http::read(socket, buffer, request, error);
    if (error) return;
    ServedRequest served;
    served.target = std::string(request.target());
    served.authorization = std::string(request[http::field::authorization]);
    served.user_agent = std::string(request[http::field::user_agent]);
    const std::string range(request[http::field::range]);
    served.unless_etag = std::string(request[http::field::if_none_match]);
    if (range.starts_with("bytes=")) {
      served.from = std::stoull(range.substr(6));
      const std::string to = range.substr(range.find('-') + 1);
      if (!to.empty()) served.to = std::stoull(to);
    }
    {
      const std::lock_guard lock(mutex_);
      requests_.push_back(served);
    }
    send(socket, handler_(served));
  }

  static void send(Socket& socket, const Reply& reply) {
    std::string head = fmt::format("HTTP/1.1 {} Test\r\nConnection: close\r\n", reply.status);
    for (const auto& [name, value] : reply.headers) head += fmt::format("{}: {}\r\n", name, value);
    if (!reply.chunked)
      head += fmt::format("Content-Length: {}\r\n", reply.promised.value_or(reply.body.size()));
    boost::system::error_code error;
    pollfd gone{socket.native_handle(), POLLIN | POLLRDHUP, 0};
    if (reply.in_head) {
      do {
        reply.in_head();
        head += "X-More: 1\r\n";
        boost::asio::write(socket, boost::asio::buffer(head), error);
        head.clear();
      } while (!error && ::poll(&gone, 1, 5) == 0);
      return;
    }
    head += "\r\n";
    boost::asio::write(socket, boost::asio::buffer(head), error);
    boost::asio::write(socket, boost::asio::buffer(reply.body), error);
    if (reply.after_body) {
      do reply.after_body();
      while (::poll(&gone, 1, 5) == 0);
    }
    socket.shutdown(Socket::shutdown_both, error);
  }

  Handler handler_;
  boost::asio::io_context context_;
  boost::asio::ip::tcp::acceptor acceptor_;
  unsigned short port_ = 0;
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
  std::vector<std::thread> connections_;
  mutable std::mutex mutex_;
  std::vector<ServedRequest> requests_;
};

}  // namespace gezel::downloads::testing
