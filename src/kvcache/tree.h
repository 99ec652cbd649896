// kvcache/tree.h
//
// The prefix tree of one loaded model: which token sequences are computed, and where their rows lie — in a
// slot of the context, on the host, on disk (spec 40 section 11, layout S). All sessions share it; tokens are
// the key.
//
// How it is used on the decode thread (the I/O thread sees only parts, checkpoints and records: immutable,
// shared):
//   attach   match(), then plan_resume() (resume.h): where the run starts and what is missing. Records
//            are read on the I/O thread (store.h) and given back with restore(); rows that only a slot
//            has are exported first. compose_image() (image.h), one import, import_succeeded().
//            acquire() the resume node until the run ends, touch() it.
//   commit   when a run has fed up to a boundary (boundaries.h): commit() makes the node, with the slot
//            as its body. Whoever waits for it (coalesce.h) attaches after the export.
//   export   one image of the slot, Image::parse(), absorb(): at the system end, where others wait, when
//            a slot is given up, at idle and stop; with checkpoints at every boundary.
//   give up  export if wanted (what the host has is removed from the slot first, it costs less), then
//            set_slot(). Every other change of what a slot holds is told with set_slot() too.
//   evict    relieve() after exports. next_write() names what the disk should get: record_header(),
//            then on the I/O thread encode_record() and Store::write(), then set_disk(). acquire()
//            while I/O is in flight.
//   restart  Store::next_of_index(), adopt_index().
// Not thread-safe. Every change keeps the invariants that check() names.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "kvcache/image.h"
#include "kvcache/keys.h"
#include "kvcache/mode.h"

namespace gezel::kvcache {

using NodeId = std::uint64_t;  // never used twice
inline constexpr NodeId kNoNode = 0;

enum class Class : std::uint8_t { system = 0, user = 1, tail = 2 };
enum class Tier : std::uint8_t { host, disk };

// A record of the disk tier: rows of [start, end), and perhaps the checkpoint at its end.
struct DiskRecord {
  Digest id{};  // prefix hash at its end; names the file
  std::uint32_t start = 0, end = 0;
  Bytes bytes = 0;
  bool checkpoint = false;
};
using DiskRef = std::shared_ptr<const DiskRecord>;

inline constexpr std::size_t kMaxTags = 8;

// Tokens [start, end) of a path. Read it; change it through the tree.
struct Node {
  NodeId parent = kNoNode;  // of the first level: kNoNode
  Digest domain{};
  std::vector<Key> edge;
  std::uint32_t start = 0, end = 0;
  std::unordered_map<Key, NodeId> kids;  // by the first key of the kid's edge

  // Bodies. With a slot also the parent is in it.
  std::vector<Piece> rows;                       // host: all of [start, end), or none
  std::shared_ptr<const Checkpoint> checkpoint;  // host: at `end`
  DiskRef disk;                                  // a record that holds [start, end) and perhaps more
  std::vector<int> slots;

  std::uint32_t refs = 0;  // runs attached and I/O in flight, here or below
  std::uint32_t pins = 0;  // here or below
  Class cls = Class::tail;
  std::uint32_t hits = 0;
  MonotonicTime last_use{};
  std::vector<std::uint64_t> tags;  // sessions that use it
  bool shared = false;              // more sessions than tags can say

  bool has_rows() const { return !rows.empty() || disk || !slots.empty(); }
  bool has_host() const { return !rows.empty() || checkpoint; }
  // The record's checkpoint is this node's, not one below it after a split.
  bool disk_checkpoint() const { return disk && disk->checkpoint && disk->end == end; }
};

struct Match {
  std::vector<NodeId> path;   // from the first level down; the last may match only in part
  std::uint32_t matched = 0;  // tokens; never inside a media span
};

// Where a text that grows stands in the tree, so that it need not be walked from its beginning each time. A
// living node never changes its tokens, so this stays right through splits; where the node is gone, the walk
// begins anew.
struct TreePlace {
  NodeId node = kNoNode;      // the deepest node on its path; kNoNode: nothing of it is known
  std::uint32_t matched = 0;  // of its tokens; the last of them lies in `node`
};

struct TreeOptions {
  Mode mode = Mode::full;
  Bytes host_budget = 0, disk_budget = 0;  // disk: 0 = no limit here
};

class Tree {
 public:
  explicit Tree(TreeOptions options);
  ~Tree();
  Tree(Tree&&) noexcept;
  Tree& operator=(Tree&&) noexcept;

  // --- structure
  Match match(const Digest& domain, std::span<const Key> keys) const;
  const Node* find(NodeId id) const;
  // Keys [0, end) of a node's path.
  std::vector<Key> path_keys(NodeId id) const;
  // From the first level down to `id`.
  std::vector<NodeId> path(NodeId id) const;
  Digest hash_of(NodeId id) const;
  // Makes the node that ends at `end` of `keys`, splitting what is in the way, with `slot` as a body of its
  // whole path (the slot holds at least [0, end) of the keys). Ends inside a media span move before it;
  // kNoNode when nothing is left.
  NodeId commit(const Digest& domain, std::span<const Key> keys, std::uint32_t end, Class cls, int slot,
                MonotonicTime now);
  // Joins single-child chains (mode full only): fewer, longer nodes. Returns how many went.
  std::size_t merge();
  // What followed all of these tokens before, most recent first choice: the draft of tree continuation. Empty
  // where they have left the tree. `place` is what the last call made of a beginning of the same tokens, at
  // first TreePlace{}; only what is new since then is looked at.
  std::vector<Key> continuation(const Digest& domain, std::span<const std::int32_t> tokens, std::size_t limit,
                                TreePlace& place) const;
  // What lies behind the part of these keys that is known, most recent first choice.
  std::vector<Key> behind_match(const Digest& domain, std::span<const Key> keys, std::size_t limit) const;
  std::size_t size() const;
  void each(const std::function<void(NodeId, const Node&)>& visit) const;

  // --- use
  void acquire(NodeId id);  // the whole path stays until released
  void release(NodeId id);
  void touch(NodeId id, MonotonicTime now, bool hit);
  void tag(NodeId id, std::uint64_t session);
  // Pins the path up to `id`. Errors: `cache-pin-limit` (pinned bytes would be more than half of a tier).
  Result<> pin(NodeId id);
  void unpin(NodeId id);
  // Was pin() called for this very node, and not only for one below it?
  bool pinned_here(NodeId id) const;

  // --- bodies
  // What `slot` holds now ends with node `id` (kNoNode: nothing the tree knows). Nodes that no other body
  // keeps are dropped.
  void set_slot(int slot, NodeId id);
  // Gives a node its rows on the host; they must be exactly its tokens. False: the node is gone or has them.
  bool set_rows(NodeId id, std::vector<Piece> rows);
  bool set_checkpoint(NodeId id, std::shared_ptr<const Checkpoint> checkpoint);
  bool set_disk(NodeId id, DiskRef record);
  // Gives what was read from a record to the nodes that have it as their body, as far as the budget has room.
  // `parts`: of the record's beginning; when some are missing at its end (damage), a node may be cut there:
  // what was read stays, and the rest goes with forget_record(). Returns the bytes kept.
  Bytes restore(const Digest& record, std::span<const Part> parts, std::optional<Checkpoint> checkpoint);
  // A record that vanished or is damaged: all nodes lose it, and what it alone kept.
  void forget_record(const Digest& record);
  // Keeps what the host lacks on the path to `id` out of an image whose first token is number `first`: rows,
  // top down while the budget has room, and the checkpoint if the image ends where `id` does. Evicts for it
  // if it must. Returns the bytes kept.
  Bytes absorb(NodeId id, const Image& image, std::uint32_t first);
  // A record found on disk; `keys` = [0, record->end). False: its prefix is not in the tree (yet).
  bool adopt(const Digest& domain, std::span<const Key> keys, DiskRef record, Class cls,
             std::span<const std::uint64_t> tags, bool shared, MonotonicTime last_use);
  // At most 8 checkpoints on a path: the system end, the last 3, the rest spread evenly. Rows stay.
  void thin_checkpoints(NodeId id);

  // --- budgets
  Bytes used(Tier tier) const;
  // One node's share of them.
  Bytes bytes(NodeId id, Tier tier) const;
  Bytes budget(Tier tier) const;
  void set_budget(Tier tier, Bytes bytes);  // takes effect with the next relieve()
  struct Dropped {
    std::uint64_t nodes[3] = {0, 0, 0};  // by class
    Bytes bytes = 0;
    std::vector<Digest> records;  // whose files may go
    std::vector<int> slots;  // drop_session(): idle slots that held its tokens; their cells should go too
    std::uint64_t in_use = 0;  // drop_session(): nodes that are, and stay; ask again when they were released
  };
  // At or above the budget: evicts until below 80 % of it. `keep`: nodes that must not go now (their write
  // has not finished); ignored for as long as the tier is above its budget.
  Dropped relieve(Tier tier, const std::function<bool(NodeId)>& keep = {});
  // Evicts until `bytes` more fit. False: they cannot.
  bool make_room(Tier tier, Bytes bytes, Dropped* dropped = nullptr);
  // Would make_room() do it on the host, with the path to `stays` kept? Evicts nothing.
  bool could_make_room(Bytes bytes, NodeId stays) const;
  // The unpinned leaf of the tier with the smallest effective time: last use + class bonus (system 1,800 s,
  // user 300 s) + 60 s per hit up to 10. kNoNode: nothing may go.
  NodeId victim(Tier tier) const;
  static MonotonicTime effective_time(const Node& node);
  // The next node whose rows the disk should get, parents before kids: its path is at least 512 tokens and it
  // was hit or is no tail, or it is pinned. `everything`: also those that do not qualify (idle freeze, stop),
  // hottest first.
  NodeId next_write(bool everything = false) const;
  // Drops one node's bodies, or those of all nodes below that nobody uses or pins.
  Dropped drop(NodeId id);
  // What only this session uses.
  Dropped drop_session(std::uint64_t session);

  // The first broken invariant, or "".
  std::string check() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace gezel::kvcache
