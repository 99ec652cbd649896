// scheduler/prefix_cache.h
//
// Computed prefixes beyond what the slots hold: which exist, where their rows lie, and how they come into a
// slot and out of one (spec 40 section 11, layout S). Owns the tree of kvcache, the prompts in flight, the
// staging buffer and the orders to the disk; the scheduler owns slots and runs, and says what happens to
// them.
//
// The order of calls for one run:
//   offer(), must_wait(), fetch()   while it waits for a slot
//   save()                          of the slot's last content, when it gets one that holds another's
//   import() or keep()              when it has it; or dropped(): it starts with nothing
//   begin()                         then next_stop() and fed() with every chunk of its prompt
//   finish()                        when it ends, however
//
// Until open() only the books are kept and nothing is moved. All on the decode thread. Whatever fails costs
// time, never an answer.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "kvcache/boundaries.h"
#include "kvcache/coalesce.h"
#include "kvcache/load_cost.h"
#include "kvcache/prefix_break.h"
#include "kvcache/pressure.h"
#include "kvcache/resume.h"
#include "kvcache/tree.h"
#include "scheduler/decoder.h"
#include "scheduler/record_io.h"

namespace gezel::scheduler {

using Token = std::int32_t;
using RunId = std::uint64_t;

// The buffer through which images pass gets no more than this part of what the cache may occupy: longer
// prompts stay in their slots.
inline constexpr Bytes kStagingShare = 3;
// Less than this is of no use to anybody.
inline constexpr Bytes kLeastCache = 16 * kMiB;

struct CacheOptions {
  kvcache::Mode mode = kvcache::Mode::full;
  int slots = 1;
  int sliding_window = 0;
  Bytes host_budget = 0, disk_budget = 0;  // disk: 0 = no limit
  Bytes staging_limit = 0;                 // of the largest image that is moved; 0: any
  Bytes scratch = 0;                       // that the disk's thread needs
  kvcache::Digest domain{}, fingerprint{};
};

// Cached tokens of one prompt by where they were.
struct CachedTiers {
  std::int64_t slot = 0, host = 0, disk = 0, coalesced = 0;
};

// One run's prompt as the cache sees it.
struct CachedPrompt {
  RunId id = 0;
  std::vector<kvcache::Key> keys;
  std::vector<std::uint64_t> token_ends;  // see kvcache/boundaries.h; empty: nothing is known of its text
  std::vector<kvcache::TextSpan> spans;   // of its messages
  std::string session;                    // "": none
  kvcache::Digest domain{};               // of its tenant: domain_for()
  bool ephemeral = false;                 // nothing behind the system text is kept
  bool forgotten = false;                 // its session was dropped: nothing is kept but what others wait for
  MonotonicTime arrived{};

  // The cache's own notes.
  std::uint32_t system_end = 0;
  kvcache::NodeId held = kvcache::kNoNode;   // acquired
  bool waited = false;                       // for another run
  std::uint32_t had = 0;                     // when that wait began
  std::set<kvcache::Digest> fetched;         // records that were read for it
  std::int64_t disk_tokens = 0;              // in them
  std::optional<MonotonicTime> fetch_until;  // then it goes on without them
  bool disk_given_up = false;
  CachedTiers tiers;
  bool parked = false;  // its rows are brought back, which is no hit
};

struct CacheStatistics {
  Bytes host_bytes = 0, host_budget = 0, disk_bytes = 0;
  std::int64_t nodes = 0, host_nodes = 0, disk_nodes = 0;
  CachedTiers cached;
  std::uint64_t misses = 0, imports = 0, failed_imports = 0, exports = 0, evicted = 0;
  kvcache::StoreStatistics disk;
};

class PrefixCache {
 public:
  // `io`: null without a disk tier.
  PrefixCache(CacheOptions options, Decoder& decoder, RecordIo* io, const Clock& clock);

  // What prompts of this tenant share; "": what all share that have none.
  kvcache::Digest domain_for(const std::string& tenant) const;
  // Prompts of this domain come: what is on disk of it becomes part of the tree.
  void meet(const kvcache::Digest& domain);

  // Images of this context have this layout and may be moved: a probe found that it works. Nothing: its
  // images do not parse and are kept whole.
  void open(std::optional<kvcache::ImageLayout> layout, std::uint32_t streams);
  bool is_open() const { return open_; }
  // Can what the slot holds be put aside and brought back?
  bool can_park(int slot) const;
  bool is_indexed() const { return indexed_; }  // what is on disk is known
  kvcache::Mode mode() const { return options_.mode; }

  // --- while a run waits
  kvcache::Resume offer(const CachedPrompt& prompt) const;
  // Is there memory to bring the offer into a slot that does not hold it? What only another slot has passes
  // through the staging buffer and the host tier.
  bool can_move(const kvcache::Resume& offer) const;
  // Another run computes at least 128 more tokens of it than `have`: it goes on when that one is there.
  bool must_wait(CachedPrompt& prompt, std::uint32_t have, MonotonicTime now);
  // Who waits for this run's prompt.
  std::vector<RunId> waiting_for(RunId run) const { return flight_.waiting_for(run); }
  // What the offer needs from the disk is on its way, or what is on the disk is not known yet: ask again.
  bool fetch(CachedPrompt& prompt, const kvcache::Resume& resume, MonotonicTime now);

  // --- slots
  // The slot holds rows that would be lost.
  bool worth_saving(int slot) const;
  // Keeps them. `ends`: its content goes anyway and may be removed for a smaller export; what is left of it
  // is cleared then.
  void save(int slot, bool ends);
  // Brings the offer's rows into an empty slot. False: the slot is empty.
  bool import(CachedPrompt& prompt, const kvcache::Resume& resume, int slot, MonotonicTime now);
  // The slot keeps its first `tokens` for this prompt.
  void keep(CachedPrompt& prompt, int slot, std::uint32_t tokens, MonotonicTime now);
  void dropped(int slot);

  // --- a run's prompt and end
  // `predicted`: how long the rest of the prompt will take.
  void begin(CachedPrompt& prompt, std::uint32_t fed, Millis predicted, MonotonicTime now);
  // Where its next chunk must end at the latest.
  std::optional<std::uint32_t> next_stop(const CachedPrompt& prompt) const;
  // True: an image was moved.
  bool fed(CachedPrompt& prompt, int slot, std::uint32_t tokens, MonotonicTime now);
  // The same as in begin(), as it looks now.
  void predict(const CachedPrompt& prompt, Millis predicted, MonotonicTime now) {
    flight_.predict(prompt.id, predicted, now);
  }
  void prefilled(std::uint64_t tokens, double seconds) { rates_.observe_prefill(tokens, seconds); }
  // The run gives its slot away and comes back: what the slot holds, `tokens`, is exported under a reference
  // that the run keeps, and the slot is cleared. `all`: its tokens so far, of which the last are not computed
  // yet. False: it could not be exported, and nothing has changed.
  bool park(CachedPrompt& prompt, int slot, std::span<const Token> tokens, std::span<const Token> all,
            MonotonicTime now);
  // `slot` < 0: it never had one. `tokens`: what its slot holds now.
  void finish(CachedPrompt& prompt, int slot, std::span<const Token> tokens, MonotonicTime now);

  // What followed these tokens in an earlier run, as far as it is known. `place`: see Tree::continuation().
  std::vector<Token> continuation(const kvcache::Digest& domain, std::span<const Token> tokens,
                                  std::size_t limit, kvcache::TreePlace& place) const;

  // --- drafts where memory cannot be cut
  bool can_go_back() const { return open_; }
  // What the slot holds now is remembered, until the next image is moved. False: it cannot be.
  bool remember(int slot);
  // To what was remembered of the slot, which were its first `tokens`. False: the slot may hold anything.
  bool go_back(int slot, std::uint32_t tokens);

  // --- now and then
  // Takes what the disk has done, gives it more, keeps the budgets. True: runs that wait may go on.
  bool tend(MonotonicTime now);
  // Exports what slots hold and the host lacks, and begins to write all of it, not only what qualifies.
  void save_everything();
  bool writing() const { return writing_ != kvcache::kNoNode || write_all_; }
  // Waits until all is written, at most until then.
  void settle(MonotonicTime until);
  void pressure(MonotonicTime now);
  // Half of the memory that the cache has, buffer included, is given back for good. Returns what it keeps.
  Bytes give_back_half(MonotonicTime now);

  // --- for people
  const kvcache::Tree& tree() const { return tree_; }
  CacheStatistics statistics() const;
  std::optional<kvcache::PrefixBreak> find_break(const CachedPrompt& prompt) const;
  // A pin is part of the node's record, and so holds after a restart.
  Result<> pin(kvcache::NodeId node);
  void unpin(kvcache::NodeId node);
  kvcache::Tree::Dropped drop(kvcache::NodeId node);
  // What only this session uses; what is being used of it goes when it no longer is. Idle slots that held its
  // tokens are in the result: clear them. Runs of the session are to be `forgotten` first.
  kvcache::Tree::Dropped drop_session(const std::string& session);

 private:
  kvcache::NodeId tip(int slot) const { return tips_[static_cast<std::size_t>(slot)]; }
  bool moves() const { return open_ && host_budget_.whole() > 0; }
  void set_tip(int slot, kvcache::NodeId node);
  void tag(const CachedPrompt& prompt, kvcache::NodeId node);
  // The deepest node that ends at or before `tokens` of these keys.
  kvcache::NodeId node_within(const kvcache::Digest& domain, std::span<const kvcache::Key> keys,
                              std::uint32_t tokens) const;
  // How many of the first tokens up to `tip` are safe outside slots.
  std::uint32_t safe_tokens(kvcache::NodeId tip) const;
  bool fits_staging(Bytes bytes) const {
    return bytes > 0 && (options_.staging_limit == 0 || bytes <= options_.staging_limit);
  }
  bool make_staging(Bytes bytes);
  // Removes from a slot whose content goes what need not be exported. Returns how many tokens that was.
  std::uint32_t cut_head(int slot);
  void clear(int slot);
  // What is being read from the disk will need its place.
  void set_host_budget(MonotonicTime now);
  bool begin_load(const kvcache::DiskRecord& record, kvcache::NodeId wanted, MonotonicTime now);
  bool make_room(Bytes bytes, kvcache::NodeId node);
  // Into the staging buffer, whose beginning is returned.
  std::optional<std::span<std::byte>> read_image(int slot, bool partial);
  std::optional<std::span<std::byte>> export_image(int slot, bool partial);
  bool has_room_to_begin(kvcache::NodeId node) const;
  bool export_slot(int slot, std::uint32_t first);
  bool export_checkpoint(int slot);
  void keep_whole_image(int slot, std::span<const std::byte> image);
  void adopt(MonotonicTime now);
  void adopt(const kvcache::Digest& domain, MonotonicTime now, kvcache::Heads heads);
  void adopt_behind(kvcache::NodeId id, MonotonicTime now);
  void record_pin(kvcache::NodeId node);
  void touch_records(kvcache::NodeId id);
  void drop_from_index(std::uint64_t session);
  kvcache::Tree::Dropped drop_tag(std::uint64_t session);
  // Something was released: what was dropped while it was used goes now.
  void drop_released();
  void note(kvcache::Tree::Dropped dropped);
  void relieve();
  void take(RecordIo::Completion completion, MonotonicTime now);
  void write_next();

  CacheOptions options_;
  Decoder& decoder_;
  RecordIo* io_;
  const Clock& clock_;
  bool open_ = false;
  std::optional<kvcache::ImageLayout> layout_;
  std::uint32_t streams_ = 1;
  kvcache::Tree tree_;
  kvcache::Coalescer flight_;
  kvcache::LoadRates rates_;
  kvcache::HostBudget host_budget_;
  Buffer staging_;
  Bytes remembered_bytes_ = 0;         // of the image that remember() put there
  Bytes checkpoint_bytes_ = 0;         // of the last one
  bool refused_ = false;               // the library did not do the last export
  std::vector<kvcache::NodeId> tips_;  // by slot: the deepest node that it holds

  std::map<kvcache::Digest, Bytes> loading_;  // records on their way, and what they take
  kvcache::NodeId writing_ = kvcache::kNoNode;
  bool writes_pin_ = false;  // as the record under way says it
  bool write_all_ = false, write_due_ = false;
  bool indexed_ = true;
  std::set<kvcache::Digest> domains_;         // whose records are part of the tree
  std::vector<kvcache::IndexEntry> index_;    // other records that were found
  std::set<std::uint64_t> dropped_sessions_;  // of which something is still used
  bool changed_ = false;                      // something happened that waiting runs may use
  CacheStatistics counts_;
};

}  // namespace gezel::scheduler
