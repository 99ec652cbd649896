// http/heap_relief.h
//
// A body of tens of megabytes leaves several times its size in the allocator's hands: its bytes, its parsed
// values, what was made of them. Some time after such bodies were dealt with, that memory goes back to the
// system.
#pragma once
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <functional>

#include "base/bytes.h"
#include "base/clock.h"

namespace gezel::http {

namespace asio = boost::asio;

inline constexpr std::uint64_t kLargeBody = 4 * kMiB;  // smaller ones are not worth the walk through the heap
inline constexpr Millis kReliefPause{2'000};           // at most one walk per pause, however many bodies come

class HeapRelief {
 public:
  // `relieve` runs on `pool`.
  HeapRelief(const asio::any_io_executor& loop, asio::any_io_executor pool, std::function<void()> relieve,
             Millis pause = kReliefPause);
  HeapRelief(const HeapRelief&) = delete;
  HeapRelief& operator=(const HeapRelief&) = delete;

  // A body of so many bytes, or what was made of it, was freed. On the loop.
  void freed(std::uint64_t body_bytes);
  // Whatever was planned is not done any more.
  void stop();

 private:
  asio::steady_timer timer_;
  asio::any_io_executor pool_;
  std::function<void()> relieve_;
  Millis pause_;
  bool waiting_ = false;
};

}  // namespace gezel::http
