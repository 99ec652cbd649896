// worker/record_thread.h
//
// The disk tier on a thread of its own: reads, writes and finds records while the decode thread computes.
// What was read comes before what is to be written.
#pragma once
#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "scheduler/record_io.h"

namespace gezel::worker {

class RecordThread final : public scheduler::RecordIo {
 public:
  // Begins with finding what is there. `layout`: of the context's images. `wake` is called on the thread when
  // something came to an end.
  RecordThread(kvcache::StoreOptions options, kvcache::ImageLayout layout, const Clock& clock,
               std::function<void()> wake);
  ~RecordThread() override;

  void write(kvcache::NodeId node, kvcache::RecordHeader header, std::vector<kvcache::Piece> rows,
             std::shared_ptr<const kvcache::Checkpoint> checkpoint) override;
  void load(const kvcache::Digest& record, std::vector<kvcache::Key> keys) override;
  void remove(const kvcache::Digest& record) override;
  void set_pinned(const kvcache::Digest& record, bool pinned) override;
  void touch(std::vector<kvcache::Digest> records) override;
  std::vector<Completion> take(std::optional<MonotonicTime> until) override;
  bool writable() const override { return writable_.load(); }
  kvcache::StoreStatistics statistics() const override;

 private:
  struct WriteJob {
    kvcache::NodeId node;
    kvcache::RecordHeader header;
    std::vector<kvcache::Piece> rows;
    std::shared_ptr<const kvcache::Checkpoint> checkpoint;
  };
  struct PinJob {
    kvcache::Digest record;
    bool pinned;
  };
  struct LoadJob {
    kvcache::Digest record;
    std::vector<kvcache::Key> keys;
  };

  void run();
  void find_records();
  Completion perform(WriteJob job);
  Completion perform(const LoadJob& job);
  void finish(Completion completion);
  void report_trouble();

  kvcache::Store store_;
  const kvcache::ImageLayout layout_;
  const Clock& clock_;
  const std::function<void()> wake_;
  mutable std::mutex mutex_;
  std::condition_variable work_, finished_;
  std::deque<LoadJob> loads_;
  std::deque<WriteJob> writes_;
  std::deque<kvcache::Digest> removals_;
  std::deque<PinJob> pins_;
  std::deque<std::vector<kvcache::Digest>> touches_;
  std::vector<Completion> done_;
  kvcache::StoreStatistics statistics_;
  std::string trouble_;
  std::atomic<bool> writable_{true};
  bool stopping_ = false;
  std::thread thread_;  // the last member: it uses the others
};

}  // namespace gezel::worker
