// cli/pull_progress.h
//
// How far a download is, as a line for people: a bar, bytes, rate and what remains. Pure.
#pragma once
#include <deque>
#include <optional>
#include <string>
#include <utility>

#include "base/bytes.h"
#include "base/clock.h"

namespace gezel::cli {

// Bytes a second over the last few seconds, so that it follows the network and does not jump.
class Rate {
 public:
  void add(MonotonicTime when, Bytes written);
  // Nothing until there is something to divide.
  std::optional<double> bytes_per_second() const;

 private:
  std::deque<std::pair<MonotonicTime, Bytes>> seen_;
};

// "45 s", "3 min 20 s", "2 h 5 min".
std::string remaining_text(double seconds);

// " 43 % [########          ] 40.3 MiB of 93.8 MiB  12.1 MiB/s  4 s left"; without a bar where `columns` are
// few.
std::string progress_line(Bytes written, Bytes total, std::optional<double> bytes_per_second, int columns);

}  // namespace gezel::cli
