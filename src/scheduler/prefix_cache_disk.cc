// The disk tier: what is written, what comes back, and what goes.
#include <algorithm>

#include "base/log.h"
#include "scheduler/prefix_cache.h"

namespace gezel::scheduler {

using kvcache::kNoNode;
using kvcache::NodeId;
using kvcache::Tier;

void PrefixCache::note(kvcache::Tree::Dropped dropped) {
  for (const std::uint64_t nodes : dropped.nodes) counts_.evicted += nodes;
  if (io_ == nullptr) return;
  for (const kvcache::Digest& record : dropped.records) io_->remove(record);
}

void PrefixCache::relieve() {
  // What should be on disk and is not yet stays a little longer.
  const bool writable = io_ != nullptr && io_->writable();
  note(tree_.relieve(Tier::host, [&](NodeId id) {
    const kvcache::Node* node = tree_.find(id);
    return writable && !node->disk && node->cls != kvcache::Class::tail;
  }));
}

void PrefixCache::take(RecordIo::Completion completion, MonotonicTime now) {
  if (auto* written = std::get_if<RecordIo::Written>(&completion)) {
    if (written->record) {
      tree_.set_disk(written->node, written->record);
      touch_records(written->node);
      adopt_behind(written->node, now);
      if (tree_.pinned_here(written->node) != writes_pin_) record_pin(written->node);
    } else {
      write_all_ = false;  // the disk refuses: what waits is tried again with the next change
    }
    tree_.release(written->node);
    writing_ = kNoNode;
    write_due_ = written->record != nullptr;
    drop_released();
    note(tree_.relieve(Tier::disk));
  } else if (auto* loaded = std::get_if<RecordIo::Loaded>(&completion)) {
    loading_.erase(loaded->record);
    set_host_budget(now);
    changed_ = true;
    if (!loaded->content) {
      tree_.forget_record(loaded->record);
      return;
    }
    rates_.observe_load(Tier::disk, loaded->bytes, loaded->seconds);
    tree_.restore(loaded->record, loaded->content->parts, std::move(loaded->content->checkpoint));
    if (!loaded->content->complete) tree_.forget_record(loaded->record);
  } else {
    auto& found = std::get<RecordIo::Indexed>(completion);
    std::move(found.entries.begin(), found.entries.end(), std::back_inserter(index_));
    if (!found.last) return;
    indexed_ = changed_ = true;
    adopt(now);
  }
}

// Records of tenants that did not ask yet stay outside: nothing is known of their domain but its hash.
void PrefixCache::adopt(MonotonicTime now) {
  for (const kvcache::Digest& domain : domains_) adopt(domain, now, {});
  drop_released();
  note(tree_.relieve(Tier::disk));
}

void PrefixCache::adopt(const kvcache::Digest& domain, MonotonicTime now, kvcache::Heads heads) {
  auto found = kvcache::adopt_index(tree_, domain, std::exchange(index_, {}), now, clock_.wall_now(),
                                    std::move(heads));
  index_ = std::move(found.left);
  for (const kvcache::Digest& record : found.useless) io_->remove(record);
}

// What was lost before the start and is on disk again may have records behind it.
void PrefixCache::adopt_behind(NodeId id, MonotonicTime now) {
  const kvcache::Node* node = tree_.find(id);
  if (node == nullptr || !node->disk || node->disk->end != node->end) return;
  const kvcache::Digest head = node->disk->id;
  if (std::ranges::none_of(index_, [&](const auto& entry) { return entry.header.parent == head; })) return;
  adopt(node->domain, now, {{head, tree_.path_keys(id)}});
}

// Of an unmet tenant, or without its head.
void PrefixCache::drop_from_index(std::uint64_t session) {
  std::erase_if(index_, [&](const kvcache::IndexEntry& entry) {
    const kvcache::RecordHeader& header = entry.header;
    if (header.shared || header.pinned || header.tags != std::vector{session}) return false;
    io_->remove(header.own);
    return true;
  });
}

// Files are pruned by the time of their last use, and a record without what was before it is lost: none is
// older than what hangs on it.
void PrefixCache::touch_records(NodeId id) {
  std::vector<kvcache::Digest> records;
  for (const kvcache::Node* node = tree_.find(id); node != nullptr; node = tree_.find(node->parent)) {
    if (node->disk && (records.empty() || records.back() != node->disk->id))
      records.push_back(node->disk->id);
  }
  if (io_ != nullptr && !records.empty()) io_->touch(std::move(records));
}

void PrefixCache::meet(const kvcache::Digest& domain) {
  if (domains_.insert(domain).second && indexed_ && !index_.empty()) adopt(clock_.now());
}

// What is read is memory from its beginning on. False: there is no room for it, or will be none once the
// others are here.
bool PrefixCache::begin_load(const kvcache::DiskRecord& record, NodeId wanted, MonotonicTime now) {
  if (!make_room(record.bytes, wanted)) return false;
  loading_[record.id] = record.bytes;
  set_host_budget(now);
  return true;
}

void PrefixCache::set_host_budget(MonotonicTime now) {
  Bytes budget = host_budget_.bytes(now);
  for (const auto& [record, bytes] : loading_) budget -= std::min(budget, bytes);
  if (budget == tree_.budget(Tier::host)) return;
  const bool less = budget < tree_.budget(Tier::host);
  tree_.set_budget(Tier::host, budget);
  if (less && tree_.used(Tier::host) > budget) relieve();
}

Result<> PrefixCache::pin(NodeId node) {
  const bool before = tree_.pinned_here(node);
  GEZEL_CHECK(tree_.pin(node));
  if (!before) record_pin(node);
  return {};
}

void PrefixCache::unpin(NodeId node) {
  if (!tree_.pinned_here(node)) return;
  tree_.unpin(node);
  if (!tree_.pinned_here(node)) record_pin(node);
}

// Says in the node's record what holds of it now. One that has none yet, or is being written, gets it with
// that.
void PrefixCache::record_pin(NodeId id) {
  write_due_ = true;
  const kvcache::Node* node = tree_.find(id);
  if (io_ == nullptr || node == nullptr || !node->disk || node->disk->end != node->end) return;
  io_->set_pinned(node->disk->id, tree_.pinned_here(id));
}

void PrefixCache::write_next() {
  if (!write_due_ || writing_ != kNoNode || !open_ || !io_->writable()) return;
  const NodeId id = tree_.next_write(write_all_);
  if (id == kNoNode) {
    write_all_ = write_due_ = false;
    return;
  }
  const kvcache::Node& node = *tree_.find(id);
  auto header = kvcache::record_header(tree_, id, options_.fingerprint, options_.mode);
  writes_pin_ = header.pinned;
  io_->write(id, std::move(header), node.rows, node.checkpoint);
  tree_.acquire(id);
  writing_ = id;
}

void PrefixCache::save_everything() {
  for (int slot = 0; slot < options_.slots; ++slot) {
    if (worth_saving(slot)) save(slot, false);
  }
  if (io_ == nullptr || !open_) return;
  write_all_ = write_due_ = true;
  if (!io_->writable()) write_all_ = false;
  write_next();
}

void PrefixCache::settle(MonotonicTime until) {
  while (writing() && clock_.now() < until) {
    for (auto& completion : io_->take(until)) take(std::move(completion), clock_.now());
    write_next();
  }
}

}  // namespace gezel::scheduler
