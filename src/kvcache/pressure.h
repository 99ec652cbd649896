// kvcache/pressure.h
//
// The host tier's budget under memory pressure (spec 40 section 11.9.6): halved by each event down to 256
// MiB, whole again after ten minutes without one. Give the result to Tree::set_budget() and relieve().
#pragma once
#include <algorithm>
#include <chrono>

#include "base/bytes.h"
#include "base/clock.h"

namespace gezel::kvcache {

class HostBudget {
 public:
  explicit HostBudget(Bytes whole) : whole_(whole), now_(whole) {}
  void pressure(MonotonicTime now) {
    now_ = std::min(whole_, std::max(now_ / 2, 256 * kMiB));
    restored_at_ = now + std::chrono::minutes(10);
  }
  Bytes whole() const { return whole_; }
  Bytes now() const { return now_; }  // as of the last call of bytes() or another change
  // For good.
  void shrink(Bytes whole) {
    whole_ = std::min(whole_, whole);
    now_ = std::min(now_, whole_);
  }
  Bytes bytes(MonotonicTime now) {
    if (now >= restored_at_) now_ = whole_;
    return now_;
  }

 private:
  Bytes whole_, now_;
  MonotonicTime restored_at_{};
};

}  // namespace gezel::kvcache
