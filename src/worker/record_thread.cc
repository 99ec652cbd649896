#include "worker/record_thread.h"

#include <algorithm>
#include <chrono>

#include "base/log.h"

namespace gezel::worker {
namespace {

// While the disk refuses, it is asked whether it does still.
constexpr std::chrono::seconds kAskAgain{5};
// Prompts whose use is not noted yet: a disk that hangs takes no more.
constexpr std::size_t kMostTouches = 64;

}  // namespace

RecordThread::RecordThread(kvcache::StoreOptions options, kvcache::ImageLayout layout, const Clock& clock,
                           std::function<void()> wake)
    : store_(std::move(options), clock),
      layout_(std::move(layout)),
      clock_(clock),
      wake_(std::move(wake)),
      thread_([this] { run(); }) {}

RecordThread::~RecordThread() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_.notify_one();
  thread_.join();
}

void RecordThread::write(kvcache::NodeId node, kvcache::RecordHeader header, std::vector<kvcache::Piece> rows,
                         std::shared_ptr<const kvcache::Checkpoint> checkpoint) {
  {
    const std::lock_guard lock(mutex_);
    writes_.push_back({node, std::move(header), std::move(rows), std::move(checkpoint)});
  }
  work_.notify_one();
}

void RecordThread::load(const kvcache::Digest& record, std::vector<kvcache::Key> keys) {
  {
    const std::lock_guard lock(mutex_);
    loads_.push_back({record, std::move(keys)});
  }
  work_.notify_one();
}

void RecordThread::remove(const kvcache::Digest& record) {
  {
    const std::lock_guard lock(mutex_);
    removals_.push_back(record);
  }
  work_.notify_one();
}

void RecordThread::set_pinned(const kvcache::Digest& record, bool pinned) {
  {
    const std::lock_guard lock(mutex_);
    pins_.push_back({record, pinned});
  }
  work_.notify_one();
}

void RecordThread::touch(std::vector<kvcache::Digest> records) {
  {
    const std::lock_guard lock(mutex_);
    // Only the order of pruning suffers from what is left out.
    if (touches_.size() == kMostTouches) touches_.pop_front();
    touches_.push_back(std::move(records));
  }
  work_.notify_one();
}

std::vector<RecordThread::Completion> RecordThread::take(std::optional<MonotonicTime> until) {
  std::unique_lock lock(mutex_);
  if (until) finished_.wait_until(lock, *until, [this] { return !done_.empty(); });
  return std::exchange(done_, {});
}

kvcache::StoreStatistics RecordThread::statistics() const {
  const std::lock_guard lock(mutex_);
  return statistics_;
}

void RecordThread::run() {
  find_records();
  std::unique_lock lock(mutex_);
  const auto something = [this] {
    return stopping_ || !loads_.empty() || !writes_.empty() || !removals_.empty() || !pins_.empty() ||
           !touches_.empty();
  };
  while (true) {
    if (writable_.load()) {
      work_.wait(lock, something);
    } else {
      work_.wait_for(lock, kAskAgain, something);
    }
    if (stopping_) return;
    if (!loads_.empty()) {
      const LoadJob job = std::move(loads_.front());
      loads_.pop_front();
      lock.unlock();
      finish(perform(job));
    } else if (!removals_.empty()) {
      const kvcache::Digest record = removals_.front();
      removals_.pop_front();
      lock.unlock();
      store_.remove(record);
    } else if (!pins_.empty()) {
      const PinJob job = pins_.front();
      pins_.pop_front();
      lock.unlock();
      store_.set_pinned(job.record, job.pinned);
    } else if (!touches_.empty()) {
      const std::vector<kvcache::Digest> records = std::move(touches_.front());
      touches_.pop_front();
      lock.unlock();
      store_.touch(records);
    } else if (!writes_.empty()) {
      WriteJob job = std::move(writes_.front());
      writes_.pop_front();
      lock.unlock();
      finish(perform(std::move(job)));
    } else {
      lock.unlock();
    }
    const bool could_write = writable_.exchange(store_.writable());
    if (!could_write && writable_.load()) wake_();
    lock.lock();
  }
}

void RecordThread::find_records() {
  scheduler::RecordIo::Indexed found{.entries = {}, .last = true};
  while (auto entry = store_.next_of_index()) {
    found.entries.push_back(std::move(*entry));
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
  }
  finish(std::move(found));
}

RecordThread::Completion RecordThread::perform(WriteJob job) {
  Written written{.node = job.node, .record = nullptr};
  auto record = kvcache::encode_record(std::move(job.header), layout_, job.rows, std::move(job.checkpoint));
  if (!record) {
    log_warn("a prompt could not be written down", {{"reason", record.error().message}});
    return written;
  }
  auto reference = kvcache::disk_ref(*record);
  if (store_.write(std::move(*record))) written.record = std::move(reference);
  return written;
}

RecordThread::Completion RecordThread::perform(const LoadJob& job) {
  const MonotonicTime began = clock_.now();
  Loaded loaded{.record = job.record, .content = store_.load(job.record, job.keys, layout_)};
  loaded.seconds = std::chrono::duration<double>(clock_.now() - began).count();
  if (loaded.content) {
    for (const kvcache::Part& part : loaded.content->parts) loaded.bytes += part->bytes.size();
    if (loaded.content->checkpoint) loaded.bytes += loaded.content->checkpoint->bytes.size();
  }
  return loaded;
}

void RecordThread::finish(Completion completion) {
  report_trouble();
  {
    const std::lock_guard lock(mutex_);
    statistics_ = store_.statistics();
    done_.push_back(std::move(completion));
  }
  finished_.notify_one();
  wake_();
}

// Once for each kind of trouble: a full disk is no news a minute later.
void RecordThread::report_trouble() {
  if (store_.last_trouble() == trouble_) return;
  trouble_ = store_.last_trouble();
  log_warn("the disk tier of the prefix cache had trouble", {{"reason", trouble_}});
}

}  // namespace gezel::worker
