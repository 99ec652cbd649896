#include "http/port_probe.h"

#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <memory>
#include <string>

namespace gezel::http {
namespace {

using asio::ip::tcp;

constexpr auto kQuietly = asio::as_tuple(asio::use_awaitable);
constexpr std::size_t kReadLimit = 4096;
constexpr std::string_view kRequest = "GET /health HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n";

}  // namespace

Occupant classify_occupant(std::string_view answer) {
  if (!answer.starts_with("HTTP/1.")) return Occupant::unknown;
  const bool unauthorized = answer.substr(0, answer.find('\r')).find(" 401") != std::string_view::npos;
  const bool ours = answer.find("\"ok\":true") != std::string_view::npos;
  return ours || unauthorized ? Occupant::gezel : Occupant::foreign;
}

asio::awaitable<Occupant> probe_port(std::uint16_t port, Millis budget) {
  const auto loop = co_await asio::this_coro::executor;
  const auto socket = std::make_shared<tcp::socket>(loop);
  asio::steady_timer timer(loop, budget);
  timer.async_wait([weak = std::weak_ptr(socket)](boost::system::error_code error) {
    const auto open = weak.lock();
    if (error || !open) return;
    boost::system::error_code ignored;
    open->close(ignored);
  });

  std::string answer;
  auto [failed] = co_await socket->async_connect({asio::ip::address_v4::loopback(), port}, kQuietly);
  if (!failed) {
    const auto [write_failed, sent] = co_await asio::async_write(*socket, asio::buffer(kRequest), kQuietly);
    failed = write_failed;
  }
  std::array<char, kReadLimit> piece;
  while (!failed && answer.size() < kReadLimit) {
    const auto [read_failed, count] =
        co_await socket->async_read_some(asio::buffer(piece.data(), kReadLimit - answer.size()), kQuietly);
    failed = read_failed;
    answer.append(piece.data(), count);
  }
  timer.cancel();
  co_return classify_occupant(answer);
}

}  // namespace gezel::http
