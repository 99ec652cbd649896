// models/disk_holds.h
//
// Space that installs and copies under way are still going to fill (spec 60 section 10.6). Whoever is about
// to write much takes a hold and learns what all others hold, in one step: of two that begin at the same
// moment the second sees the first. Thread-safe.
#pragma once
#include <map>
#include <mutex>

#include "base/bytes.h"

namespace gezel::models {

class DiskHolds {
 public:
  DiskHolds() = default;
  DiskHolds(const DiskHolds&) = delete;
  DiskHolds& operator=(const DiskHolds&) = delete;

 private:
  friend class DiskHold;
  std::mutex mutex_;
  std::map<const void*, Bytes> remaining_;
};

// Given back when it goes. The ledger outlives it.
class DiskHold {
 public:
  DiskHold(DiskHolds& holds, Bytes bytes) : holds_(holds) {
    const std::lock_guard lock(holds_.mutex_);
    for (const auto& [other, remaining] : holds_.remaining_) others_ += remaining;
    holds_.remaining_[this] = bytes;
  }
  DiskHold(const DiskHold&) = delete;
  DiskHold& operator=(const DiskHold&) = delete;
  ~DiskHold() {
    const std::lock_guard lock(holds_.mutex_);
    holds_.remaining_.erase(this);
  }

  Bytes others() const { return others_; }  // what all others held when this one was taken
  void set(Bytes bytes) {                   // what is still to be written
    const std::lock_guard lock(holds_.mutex_);
    holds_.remaining_[this] = bytes;
  }

 private:
  DiskHolds& holds_;
  Bytes others_ = 0;
};

}  // namespace gezel::models
