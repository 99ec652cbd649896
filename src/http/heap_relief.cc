#include "http/heap_relief.h"

#include <boost/asio/post.hpp>
#include <utility>

namespace gezel::http {

HeapRelief::HeapRelief(const asio::any_io_executor& loop, asio::any_io_executor pool,
                       std::function<void()> relieve, Millis pause)
    : timer_(loop), pool_(std::move(pool)), relieve_(std::move(relieve)), pause_(pause) {}

void HeapRelief::freed(std::uint64_t body_bytes) {
  if (body_bytes < kLargeBody || std::exchange(waiting_, true)) return;
  timer_.expires_after(pause_);
  timer_.async_wait([this](boost::system::error_code error) {
    if (error) return;
    waiting_ = false;
    asio::post(pool_, relieve_);
  });
}

void HeapRelief::stop() {
  waiting_ = true;  // for what never comes
  timer_.cancel();
}

}  // namespace gezel::http
