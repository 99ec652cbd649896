// http/test_listener.h
//
// For tests of connections: a listener on a port of its own over the fakes of test_support.h, and a client
// that sends bytes and reads answers on the same loop.
#pragma once
#include <fmt/format.h>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>
#include <memory>
#include <string>
#include <string_view>

#include "http/listener.h"
#include "http/test_support.h"

namespace gezel::http::test {

inline constexpr std::string_view kHealth = "GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n";
inline constexpr std::string_view kHealthBody = R"({"ok":true,"version":"9.9"})";

struct Answer {
  int status = 0;  // 0: the connection ended
  std::string head;
  std::string body;
};

// A client that reads answers as they come, on the same loop as the server.
class Client {
 public:
  explicit Client(asio::io_context& loop) : socket_(loop) {}

  asio::awaitable<void> connect(std::uint16_t port) {
    const auto [error] = co_await socket_.async_connect({asio::ip::address_v4::loopback(), port}, kQuietly);
    EXPECT_FALSE(error) << error.message();
  }
  // False: the server does not take it any more.
  asio::awaitable<bool> send(std::string bytes) {
    const auto [error, count] = co_await asio::async_write(socket_, asio::buffer(bytes), kQuietly);
    co_return !error;
  }
  asio::awaitable<Answer> read() {
    Answer answer;
    std::size_t end = std::string::npos;
    while ((end = pending_.find("\r\n\r\n")) == std::string::npos) {
      if (!co_await more()) co_return Answer{};
    }
    answer.head = pending_.substr(0, end + 2);
    pending_.erase(0, end + 4);
    answer.status = std::stoi(answer.head.substr(9, 3));
    const auto length = answer.head.find("content-length: ");
    if (length != std::string::npos) {
      const std::size_t size = std::stoul(answer.head.substr(length + 16));
      while (pending_.size() < size && co_await more()) {
      }
      answer.body = pending_.substr(0, size);
      pending_.erase(0, size);
    } else if (answer.head.find("transfer-encoding: chunked") != std::string::npos) {
      co_await read_chunks(answer.body);
    }
    co_return answer;
  }
  asio::awaitable<Answer> ask(std::string request) {
    co_await send(std::move(request));
    co_return co_await read();
  }
  // Everything until the server closes.
  asio::awaitable<std::string> read_to_end() {
    while (co_await more()) {
    }
    co_return std::exchange(pending_, {});
  }
  asio::awaitable<bool> closed() { co_return (co_await read_to_end()).empty(); }
  asio::awaitable<void> wait_for(std::string_view text) {
    while (pending_.find(text) == std::string::npos && co_await more()) {
    }
  }
  void drop() {
    boost::system::error_code ignored;
    // A reset rather than an orderly end.
    socket_.set_option(asio::socket_base::linger(true, 0), ignored);
    socket_.close(ignored);
  }
  // All is said, and the answer is still read: what `nc -N` does.
  void half_close() { socket_.shutdown(asio::ip::tcp::socket::shutdown_send); }
  void close() { socket_.close(); }

 private:
  asio::awaitable<bool> more() {
    char piece[16 * 1024];
    const auto [error, count] = co_await socket_.async_read_some(asio::buffer(piece), kQuietly);
    pending_.append(piece, count);
    co_return !error;
  }
  asio::awaitable<void> read_chunks(std::string& body) {
    for (;;) {
      std::size_t line = std::string::npos;
      while ((line = pending_.find("\r\n")) == std::string::npos) {
        if (!co_await more()) co_return;
      }
      const std::size_t size = std::stoul(pending_.substr(0, line), nullptr, 16);
      while (pending_.size() < line + 2 + size + 2) {
        if (!co_await more()) co_return;
      }
      body += pending_.substr(line + 2, size);
      pending_.erase(0, line + 2 + size + 2);
      if (size == 0) co_return;
    }
  }

  asio::ip::tcp::socket socket_;
  std::string pending_;
};

inline std::string request(std::string_view method, std::string_view target, std::string_view body = "",
                           std::string_view headers = "", std::string_view token = "client") {
  std::string text = fmt::format("{} {} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\n{}",
                                 method, target, token, headers);
  if (!body.empty()) text += fmt::format("content-length: {}\r\n", body.size());
  return text + "\r\n" + std::string(body);
}
inline std::string chat_request(std::string_view extra = "") {
  return request("POST", "/v1/chat/completions",
                 fmt::format(R"({{"model":"m","messages":[{{"role":"user","content":"hi"}}]{}}})", extra));
}

class ListenerTest : public RouterTest {
 public:
  void listen(ListenerLimits limits = {}) {
    auto bound = Listener::bind(loop.get_executor(), 0, 0, *router, open, clock, limits);
    ASSERT_TRUE(bound) << bound.error().message;
    listener = std::move(*bound);
    listener->start();
  }
  // Runs a conversation of one client, then closes the listener.
  template <class F>
  void talk(F conversation, ListenerLimits limits = {}) {
    listen(limits);
    run([](ListenerTest& test, F& converse) -> asio::awaitable<void> {
      Client client(test.loop);
      co_await client.connect(test.listener->port());
      co_await converse(client);
      client.close();
      co_await test.listener->close(Millis(2'000));
      EXPECT_EQ(test.listener->connections(), 0U);
      EXPECT_EQ(test.open.size(), 0U);
    }(*this, conversation));
  }

  // The engine was asked so many times for its next event, and has none.
  asio::awaitable<void> engine_is_asked(int times) {
    const auto script = inference.script;
    co_await script->bell.wait([&] {
      if (script->asked < times) asio::post(loop, [script] { script->bell.ring(); });
      return script->asked >= times;
    });
  }
  // A new request for each kind of answer and of protocol.
  struct Kind {
    bool stream, old;
    std::string request() const {
      std::string text = chat_request(stream ? R"(,"stream":true)" : "");
      if (old) text.replace(text.find("HTTP/1.1"), 8, "HTTP/1.0");
      return text;
    }
  };
  static constexpr Kind kKinds[] = {{false, false}, {true, false}, {false, true}, {true, true}};

  OpenRequests open{loop.get_executor()};
  std::unique_ptr<Listener> listener;
};

}  // namespace gezel::http::test
