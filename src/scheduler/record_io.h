// scheduler/record_io.h
//
// The disk tier as the decode thread sees it: orders go out, and what became of them is taken later. Nothing
// here waits for a disk.
#pragma once
#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "kvcache/record.h"
#include "kvcache/store.h"

namespace gezel::scheduler {

class RecordIo {
 public:
  struct Written {
    kvcache::NodeId node = kvcache::kNoNode;
    kvcache::DiskRef record;  // null: it could not be written
  };
  struct Loaded {
    kvcache::Digest record{};
    std::optional<kvcache::LoadedRecord> content;  // nothing: vanished or damaged
    Bytes bytes = 0;
    double seconds = 0;
  };
  // Some records that were found at the start; `last`: no more will come.
  struct Indexed {
    std::vector<kvcache::IndexEntry> entries;
    bool last = false;
  };
  using Completion = std::variant<Written, Loaded, Indexed>;

  virtual ~RecordIo() = default;
  // A node's rows and checkpoint. One at a time is enough: the next when this one was written.
  virtual void write(kvcache::NodeId node, kvcache::RecordHeader header, std::vector<kvcache::Piece> rows,
                     std::shared_ptr<const kvcache::Checkpoint> checkpoint) = 0;
  // `keys`: of the record's range, as far as they are known.
  virtual void load(const kvcache::Digest& record, std::vector<kvcache::Key> keys) = 0;
  virtual void remove(const kvcache::Digest& record) = 0;
  // Says in the record whether its node is pinned: what the tree finds after a restart.
  virtual void set_pinned(const kvcache::Digest& record, bool pinned) = 0;
  // These were used now, from the end of a prompt up to its head: see Store::touch().
  virtual void touch(std::vector<kvcache::Digest> records) = 0;
  // What came to an end since the last call. With `until`: waits for something until then.
  virtual std::vector<Completion> take(std::optional<MonotonicTime> until = std::nullopt) = 0;
  // Writing is worth a try now (not right after a failure).
  virtual bool writable() const = 0;
  virtual kvcache::StoreStatistics statistics() const = 0;
};

}  // namespace gezel::scheduler
