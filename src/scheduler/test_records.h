// scheduler/test_records.h
//
// For tests: a disk that is memory and has done everything when it is asked.
#pragma once
#include <map>

#include "scheduler/record_io.h"
#include "scheduler/test_scheduler.h"

namespace gezel::scheduler {

class MemoryRecords final : public RecordIo {
 public:
  explicit MemoryRecords(kvcache::Mode mode) : layout_(fake_layout(mode)) { found(); }

  void write(kvcache::NodeId node, kvcache::RecordHeader header, std::vector<kvcache::Piece> rows,
             std::shared_ptr<const kvcache::Checkpoint> checkpoint) override {
    if (!accepts) {
      done_.push_back(Written{.node = node, .record = nullptr});
      return;
    }
    auto record = kvcache::encode_record(std::move(header), layout_, rows, checkpoint);
    ASSERT_TRUE(record) << record.error().message;
    done_.push_back(Written{.node = node, .record = kvcache::disk_ref(*record)});
    ++written;
    const kvcache::Digest own = record->header.own;
    files.insert_or_assign(own, File{std::move(*record), checkpoint});
  }
  void load(const kvcache::Digest& record, std::vector<kvcache::Key> keys) override {
    Loaded loaded{.record = record, .content = std::nullopt, .bytes = 0, .seconds = 1e-3};
    ++loads;
    const auto file = files.find(record);
    if (file != files.end() && kvcache::common_prefix(file->second.record.header.keys, keys) == keys.size()) {
      auto& content = loaded.content.emplace();
      for (const auto& piece : file->second.record.rows) {
        // As a file would give them: of its own, not the tree's.
        content.parts.push_back(std::make_shared<const kvcache::Rows>(*kvcache::slice(layout_.rows, piece)));
      }
      if (file->second.checkpoint) content.checkpoint = *file->second.checkpoint;
      content.complete = !damaged;
      if (damaged && !content.parts.empty()) content.parts.pop_back();
      if (damaged) content.checkpoint.reset();
      for (const auto& part : content.parts) loaded.bytes += part->bytes.size();
    }
    if (!holds_back) done_.push_back(std::move(loaded));
  }
  void remove(const kvcache::Digest& record) override { files.erase(record); }
  void set_pinned(const kvcache::Digest& record, bool pinned) override {
    if (const auto file = files.find(record); file != files.end()) file->second.record.header.pinned = pinned;
  }
  void touch(std::vector<kvcache::Digest> records) override { touched.push_back(std::move(records)); }
  std::vector<Completion> take(std::optional<MonotonicTime>) override { return std::exchange(done_, {}); }
  bool writable() const override { return accepts; }
  kvcache::StoreStatistics statistics() const override { return {.written = written}; }

  // As after a restart: what is on disk is found again.
  void found() {
    done_.clear();
    Indexed index{.entries = {}, .last = true};
    for (const auto& [own, file] : files)
      index.entries.push_back({.header = file.record.header, .bytes = file.record.bytes()});
    done_.push_back(std::move(index));
  }

  struct File {
    kvcache::EncodedRecord record;
    std::shared_ptr<const kvcache::Checkpoint> checkpoint;
  };
  std::map<kvcache::Digest, File> files;
  std::vector<std::vector<kvcache::Digest>> touched;
  bool accepts = true, damaged = false, holds_back = false;
  std::uint64_t written = 0;
  int loads = 0;

 private:
  kvcache::ImageLayout layout_;
  std::vector<Completion> done_;
};

}  // namespace gezel::scheduler
