// kvcache/store.h
//
// The disk tier: records of one fingerprint in a folder of their own,
//   <root>/<24 hex digits of the fingerprint>/<2 hex digits>/<32 hex digits of the prefix hash>.gkv
// Files are conversations: folders 0700, files 0600. A file is whole or not there: it is written beside its
// place, synced and renamed. Whatever goes wrong — full, read-only, vanished, damaged — is counted and costs
// speed, never an answer: a failed write is a record that is not there, a failed read is a miss.
//
// All calls block: they belong on the I/O thread. One Store per process and fingerprint.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/files.h"
#include "kvcache/record.h"

namespace gezel::kvcache {

struct StoreOptions {
  fs::path root;
  Digest fingerprint{};
  // Instead of the fingerprint's folder below `root`: one that the caller chose and made. Records of other
  // fingerprints may lie in it and are left alone.
  fs::path folder;
  // Free bytes of the volume, unset when they cannot be told. Default: asks the system.
  std::function<std::optional<Bytes>(const fs::path&)> free_bytes;
};

struct StoreStatistics {
  std::uint64_t written = 0, loaded = 0;
  std::uint64_t corrupt = 0;   // deleted because damaged
  std::uint64_t vanished = 0;  // somebody else removed the file
  std::uint64_t no_space = 0;  // not written: too little free space
  std::uint64_t write_errors = 0, read_errors = 0;
};

// A record found at start. `keys` and everything else of the header are there; rows are read with load().
struct IndexEntry {
  RecordHeader header;
  Bytes bytes = 0;
  WallTime modified{};
};

struct LoadedRecord {
  std::vector<Part> parts;  // as far as their checksums hold: fewer than the header says when one does not
  std::optional<Checkpoint> checkpoint;
  bool complete = false;
};

class Store {
 public:
  // Removes temporary files that are older than an hour. Never fails: a root that cannot be used shows in the
  // statistics.
  Store(StoreOptions options, const Clock& clock);

  // False: not written, and the reason is counted. Needs free space for the record and 1 GiB beside it. After
  // a failure nothing is tried for a minute.
  bool write(EncodedRecord record);
  // Writing is worth a try now.
  bool writable() const;
  // The rows and checkpoint of the record that ends with this prefix hash, in the context's layout; nothing
  // for a miss. `keys`: of the record's range, as far as they are known; other ones under the same hash are a
  // miss. A damaged file is deleted; its leading parts are still given.
  std::optional<LoadedRecord> load(const Digest& own, std::span<const Key> keys, const ImageLayout& layout);
  bool remove(const Digest& own);
  // These were used now. Each is newer than the one before it, so that pruning takes the first of them first.
  void touch(std::span<const Digest> records);
  // Says in the record's header whether its node is pinned, so that it is after a restart. False: it could
  // not be written, or there is no such record; counted.
  bool set_pinned(const Digest& own, bool pinned);

  // Reads the headers of all records, a file at a time: nothing when the last one was read. Damaged files are
  // deleted, those of other fingerprints left alone.
  std::optional<IndexEntry> next_of_index();

  const fs::path& folder() const { return folder_; }
  fs::path file_of(const Digest& own) const;
  StoreStatistics statistics() const { return statistics_; }
  // What went wrong last, for the log; "" when nothing did.
  const std::string& last_trouble() const { return trouble_; }

 private:
  Result<> write_file(EncodedRecord& record, const fs::path& path);
  void list_files();
  void discard(const fs::path& path);

  StoreOptions options_;
  const Clock& clock_;
  fs::path folder_;
  StoreStatistics statistics_;
  std::string trouble_;
  MonotonicTime retry_at_{};
  std::uint64_t temporaries_ = 0;
  bool listed_ = false;
  std::vector<fs::path> to_index_;
};

// Makes the headers of an index nodes of the tree, parents first. `heads`: nodes of the tree that they may
// hang on, by their hash.
struct AdoptedIndex {
  std::vector<IndexEntry> left;  // that hang on nothing known: to be tried again when more is known
  std::vector<Digest> useless;   // whose hash is not that of their tokens, or that others replace
};
using Heads = std::map<Digest, std::vector<Key>>;
AdoptedIndex adopt_index(Tree& tree, const Digest& domain, std::vector<IndexEntry> entries, MonotonicTime now,
                         WallTime wall_now, Heads heads = {});

// The daemon's part: removes records, the least recently used first, until all fingerprints together are
// within `budget` (0: no limit). Follows no links, removes nothing that is not a record or has changed since
// it was listed. Also removes folders that became empty.
struct PruneReport {
  Bytes before = 0, after = 0;
  std::uint64_t removed = 0;
};
PruneReport prune_records(const fs::path& root, Bytes budget);

// The daemon's part of forgetting a session, in every folder below `root`, also of models that are not
// loaded: removes the records that nobody else has a tag on, but no pinned ones. A worker that still knows
// one of them finds it gone, which is a miss. Returns how many. Error `io_error`: one could not be removed;
// the others are.
Result<std::uint64_t> forget_session_records(const fs::path& root, std::uint64_t session);

// The header of the record at `path`, which is no link. Errors: `record-invalid`, `io_error`.
Result<RecordHeader> read_record_header(const fs::path& path);

}  // namespace gezel::kvcache
