// system/memory_speed.h
//
// How fast this machine's main memory can be read: the ceiling of a language model's speed, which reads all
// of its weights for every token.
#pragma once
#include <optional>

#include "base/bytes.h"
#include "base/clock.h"

namespace gezel::system {

// The buffer that is read, at most: caches of processors are smaller, or no model that matters fits them.
inline constexpr Bytes kMostSpeedBuffer = 256 * kMiB, kLeastSpeedBuffer = 32 * kMiB;
inline constexpr Millis kSpeedTime{250};  // of reading; filling the buffer comes on top
inline constexpr int kMostSpeedThreads = 64;

// Bytes per second, read by `threads` threads at the same time: the best of several passes, so that other
// programs count as little as possible. `available` is what may be used of memory: a sixteenth of it is.
// Nothing where that is too little. Blocks for about half a second.
std::optional<double> measure_memory_speed(int threads, Bytes available, const Clock& clock);

}  // namespace gezel::system
