// downloads/retry_budget.h
//
// How often a transfer may fail, and how long to wait in between (spec 60 section 10.4). Pure policy: the
// caller counts bytes and waits.
#pragma once
#include <array>
#include <optional>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/ids.h"

namespace gezel::downloads {

struct RetryRules {
  int without_headway = 5;   // consecutive failures that got nowhere; 1 = exactly one attempt
  int attempts = 100;        // in total
  Bytes headway = 4 * kMiB;  // new bytes that make a failure a step forward
  int jitter_percent = 20;   // of the delay, either way
  std::array<Millis, 5> backoff = {Millis(1000), Millis(2000), Millis(4000), Millis(6000), Millis(8000)};
};

class RetryBudget {
 public:
  RetryBudget(const RetryRules& rules, Entropy& entropy) : rules_(rules), entropy_(entropy) {}

  // An attempt failed when the file had grown to `high_water` bytes. How long to wait before the next
  // attempt, or nothing when it was the last one.
  std::optional<Millis> failed(Bytes high_water);

  int attempts() const { return attempts_; }  // that failed so far
  // Attempts that are allowed at most as things stand, for "attempt 2 of 5".
  int most_attempts() const;

 private:
  Millis delay();

  RetryRules rules_;
  Entropy& entropy_;
  int attempts_ = 0;
  int stuck_ = 0;   // consecutive failures without headway
  Bytes mark_ = 0;  // the highest high_water so far
};

}  // namespace gezel::downloads
