// service/running.h
//
// "Somebody is at it": work of which only one may run, on one event loop.
#pragma once
#include "engine/wakeup.h"

namespace gezel::service {

// One more of those that are counted while it lives, or `by` more.
class Counted {
 public:
  explicit Counted(int& count, int by = 1) : count_(count), by_(by) { count_ += by_; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  ~Counted() { count_ -= by_; }

 private:
  int& count_;
  int by_;
};

// Sets a flag while it lives and tells who waits for its end, however that comes.
class Running {
 public:
  Running(bool& flag, engine::Wakeup& ended) : flag_(flag), ended_(ended) { flag_ = true; }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;
  ~Running() {
    flag_ = false;
    ended_.notify();
  }

 private:
  bool& flag_;
  engine::Wakeup& ended_;
};

}  // namespace gezel::service
