// Every thread fills and reads a part of its own, so that on machines with several memories each reads the
// near one. A pass begins and ends for all of them together; its time is that of the slowest.
#include "system/memory_speed.h"

#include <algorithm>
#include <barrier>
#include <cstdint>
#include <memory>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

namespace gezel::system {
namespace {

constexpr int kMostPasses = 64, kLeastPasses = 3;

// Sums are independent, so that the compiler can add many words at once and only memory is waited for.
std::uint64_t sum_of(const std::uint64_t* words, std::size_t count) {
  std::uint64_t sums[8] = {};
  for (std::size_t i = 0; i + 8 <= count; i += 8)
    for (std::size_t lane = 0; lane < 8; ++lane) sums[lane] += words[i + lane];
  std::uint64_t out = 0;
  for (const auto sum : sums) out += sum;
  return out;
}

}  // namespace

std::optional<double> measure_memory_speed(int threads, Bytes available, const Clock& clock) {
  const Bytes buffer = std::min(kMostSpeedBuffer, available / 16);
  if (threads < 1 || buffer < kLeastSpeedBuffer) return std::nullopt;
  threads = std::min(threads, kMostSpeedThreads);
  const std::size_t words = buffer / sizeof(std::uint64_t) / static_cast<std::size_t>(threads) / 8 * 8;

  std::vector<std::unique_ptr<std::uint64_t[]>> parts(static_cast<std::size_t>(threads));
  for (auto& part : parts) {
    part.reset(new (std::nothrow) std::uint64_t[words]);
    if (!part) return std::nullopt;
  }
  std::barrier all(threads);
  std::vector<std::uint64_t> sums(parts.size());
  bool more = true;  // written by the first thread between two barriers only
  double best = 0;
  std::size_t readers = 1;
  const auto read = [&](std::size_t which) {
    std::fill_n(parts[which].get(), words, which + 1);
    const auto begin = clock.now();
    for (int pass = 0; more; ++pass) {
      all.arrive_and_wait();
      const auto from = clock.now();
      sums[which] += sum_of(parts[which].get(), words);
      all.arrive_and_wait();
      if (which == 0) {
        const auto to = clock.now();
        const double seconds = std::chrono::duration<double>(to - from).count();
        if (seconds > 0)
          best = std::max(best, static_cast<double>(words * sizeof(std::uint64_t) * readers) / seconds);
        more = pass + 1 < kMostPasses && (pass + 1 < kLeastPasses || to - begin < kSpeedTime);
      }
      all.arrive_and_wait();
    }
  };
  {
    std::vector<std::jthread> others;
    try {
      for (; readers < parts.size(); ++readers) others.emplace_back(read, readers);
    } catch (const std::system_error&) {  // no more threads: those that are there read
      for (std::size_t i = readers; i < parts.size(); ++i) all.arrive_and_drop();
    }
    read(0);
  }
  // Whoever computes nothing with the sums need not compute them.
  volatile std::uint64_t sink = 0;
  for (const auto sum : sums) sink = sink + sum;
  return best > 0 ? std::optional(best) : std::nullopt;
}

}  // namespace gezel::system
