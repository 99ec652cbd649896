#include "worker/mask_thread.h"

#include <utility>

namespace gezel::worker {

MaskThread::MaskThread() : thread_([this] { run(); }) {}

MaskThread::~MaskThread() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

std::future<Result<>> MaskThread::post(std::function<Result<>()> job) {
  std::packaged_task<Result<>()> task(std::move(job));
  auto future = task.get_future();
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(task));
  }
  wake_.notify_one();
  return future;
}

void MaskThread::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return stopping_ || !jobs_.empty(); });
    if (stopping_) return;
    auto task = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    task();
    lock.lock();
  }
}

}  // namespace gezel::worker
