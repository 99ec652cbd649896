// worker/mask_thread.h
//
// Computes what the next samples may choose from while the batch runs on the decode thread.
#pragma once
#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <mutex>
#include <thread>

#include "base/result.h"

namespace gezel::worker {

class MaskThread {
 public:
  MaskThread();
  // Jobs that have not begun are dropped: their futures report a broken promise, so nobody may wait any more.
  ~MaskThread();

  std::future<Result<>> post(std::function<Result<>()> job);

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::packaged_task<Result<>()>> jobs_;
  bool stopping_ = false;
  std::thread thread_;  // the last member: it uses the others
};

}  // namespace gezel::worker
