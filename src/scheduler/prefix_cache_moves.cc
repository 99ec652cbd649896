// Images between slots and the host: one staging buffer, one image at a time.
#include <algorithm>

#include "base/log.h"
#include "scheduler/prefix_cache.h"

namespace gezel::scheduler {

using kvcache::Checkpoint;
using kvcache::Class;
using kvcache::kNoNode;
using kvcache::Mode;
using kvcache::NodeId;
using kvcache::Tier;

namespace {

const kvcache::ImageLayout kOpaque;  // of images that do not parse

}  // namespace

std::uint32_t PrefixCache::safe_tokens(NodeId tip) const {
  std::uint32_t safe = 0;
  for (const NodeId id : tree_.path(tip)) {
    const kvcache::Node& node = *tree_.find(id);
    if (node.rows.empty() && !node.disk) break;
    safe = node.end;
  }
  return safe;
}

bool PrefixCache::worth_saving(int slot) const {
  const kvcache::Node* node = tree_.find(tip(slot));
  if (node == nullptr || !moves()) return false;
  if (!keeps_rows(options_.mode)) return !node->checkpoint && !node->disk_checkpoint();
  return safe_tokens(tip(slot)) < node->end;
}

std::uint32_t PrefixCache::cut_head(int slot) {
  if (options_.mode != Mode::full && options_.mode != Mode::window) return 0;
  // The cost then follows the new tokens only. The window is needed whole.
  std::uint32_t start = safe_tokens(tip(slot));
  if (options_.mode == Mode::window) {
    const std::int32_t fed = decoder_.position_max(slot) + 1;
    start = std::min(start, static_cast<std::uint32_t>(std::max(0, fed - options_.sliding_window)));
  }
  return start > 0 && decoder_.remove(slot, 0, static_cast<std::int32_t>(start)) ? start : 0;
}

void PrefixCache::clear(int slot) {
  decoder_.remove(slot, -1, -1);
  dropped(slot);
}

void PrefixCache::save(int slot, bool ends) {
  export_slot(slot, ends ? cut_head(slot) : 0);
  if (ends) clear(slot);
}

// Its image must pass through the staging buffer both ways, and the host must have room for what it lacks.
bool PrefixCache::can_park(int slot) const {
  if (!moves() || refused_) return false;
  const Bytes image = decoder_.state_bytes(slot, false);
  if (!fits_staging(image)) return false;
  Bytes there = 0;
  for (const NodeId id : tree_.path(tip(slot))) {
    const kvcache::Node& node = *tree_.find(id);
    if (layout_ && !node.rows.empty()) there += (node.end - node.start) * layout_->rows.token_bytes();
  }
  return tree_.could_make_room(image - std::min(image, there), tip(slot));
}

bool PrefixCache::park(CachedPrompt& prompt, int slot, std::span<const Token> tokens,
                       std::span<const Token> all, MonotonicTime now) {
  const auto size = static_cast<std::uint32_t>(tokens.size());
  const Class cls = size <= prompt.keys.size() ? Class::user : Class::tail;
  auto keys = kvcache::token_keys(all);
  const NodeId node = tree_.commit(prompt.domain, keys, size, cls, slot, now);
  if (node == kNoNode) return false;
  tips_[static_cast<std::size_t>(slot)] = node;
  tag(prompt, node);
  tree_.acquire(node);
  const std::uint32_t first = cut_head(slot);
  // Without its head the slot is of no use; what was removed is safe, and only the rest is computed again.
  if (!export_slot(slot, first) && first == 0) {
    tree_.release(node);
    return false;
  }
  clear(slot);
  changed_ = !flight_.ended(prompt.id).empty() || changed_;
  flight_.forget(prompt.id);
  prompt.keys = std::move(keys);
  prompt.parked = true;
  if (const NodeId before = std::exchange(prompt.held, node); before != kNoNode) tree_.release(before);
  return true;
}

bool PrefixCache::can_move(const kvcache::Resume& offer) const {
  if (offer.tokens == 0) return true;
  if (!moves()) return false;
  const kvcache::ImageLayout& layout = layout_ ? *layout_ : kOpaque;
  if (!fits_staging(kvcache::composed_bytes(layout, {.streams = streams_, .sequence = 0}, offer.imported,
                                            offer.checkpoint.get())))
    return false;
  Bytes rows = 0;
  int slot = -1;
  for (const kvcache::ResumeStep& step : offer.steps) {
    if (step.source != kvcache::Source::slot) continue;
    rows += (step.to - step.from) * layout.rows.token_bytes();
    slot = step.slot;
  }
  // An export takes the whole slot.
  const auto held = static_cast<std::uint64_t>(decoder_.position_max(std::max(slot, 0)) + 1);
  return slot < 0 || (rows <= tree_.budget(Tier::host) &&
                      fits_staging(kvcache::composed_bytes(layout, {.streams = streams_, .sequence = slot},
                                                           held, offer.checkpoint.get())));
}

bool PrefixCache::make_staging(Bytes bytes) {
  if (!fits_staging(bytes)) return false;
  if (staging_.size() < bytes) {
    Buffer().swap(staging_);  // its content is not needed
    staging_.resize(bytes);
  }
  return true;
}

std::optional<std::span<std::byte>> PrefixCache::read_image(int slot, bool partial) {
  const Bytes bytes = decoder_.state_bytes(slot, partial);
  if (!make_staging(bytes)) return std::nullopt;
  const auto out = std::span(staging_).first(bytes);
  refused_ = decoder_.export_state(slot, partial, out) != bytes;
  if (refused_) return std::nullopt;
  return out;
}

std::optional<std::span<std::byte>> PrefixCache::export_image(int slot, bool partial) {
  const auto image = read_image(slot, partial);
  if (image) ++counts_.exports;
  return image;
}

// Of a hybrid model the rows of attention can be cut; only the state must be put back. An image that does not
// parse is all that there is.
bool PrefixCache::remember(int slot) {
  const auto image = open_ ? read_image(slot, layout_.has_value()) : std::nullopt;
  remembered_bytes_ = image ? image->size() : 0;
  return image.has_value();
}

bool PrefixCache::go_back(int slot, std::uint32_t tokens) {
  const auto image = std::span<const std::byte>(staging_).first(remembered_bytes_);
  if (image.empty() || decoder_.import_state(slot, layout_.has_value(), image) != image.size()) return false;
  return decoder_.remove(slot, static_cast<std::int32_t>(tokens), -1) &&
         decoder_.position_max(slot) == static_cast<std::int32_t>(tokens) - 1;
}

// Not by evicting the path to `node` itself.
bool PrefixCache::make_room(Bytes bytes, NodeId node) {
  tree_.acquire(node);
  kvcache::Tree::Dropped gone;
  const bool fits = tree_.make_room(Tier::host, bytes, &gone);
  note(std::move(gone));
  tree_.release(node);
  return fits;
}

// Rows are kept from the path's beginning on: nothing of it can be kept where not even the first missing ones
// fit the whole budget.
bool PrefixCache::has_room_to_begin(NodeId node) const {
  if (!layout_) return true;
  for (const NodeId id : tree_.path(node)) {
    const kvcache::Node& step = *tree_.find(id);
    if (step.rows.empty() && !step.disk)
      return (step.end - step.start) * layout_->rows.token_bytes() <= tree_.budget(Tier::host);
  }
  return true;
}

bool PrefixCache::export_slot(int slot, std::uint32_t first) {
  const NodeId node = tip(slot);
  const bool possible = node != kNoNode && has_room_to_begin(node);
  const auto bytes = possible ? export_image(slot, false) : std::nullopt;
  if (!bytes) return false;
  if (!layout_) {
    keep_whole_image(slot, *bytes);
  } else if (const auto image = kvcache::Image::parse(*bytes, image_kind(options_.mode), &*layout_)) {
    make_room((tree_.find(node)->end - safe_tokens(node)) * layout_->rows.token_bytes(), node);
    tree_.absorb(node, *image, first);
    if (const auto& kept = tree_.find(node)->checkpoint) checkpoint_bytes_ = kept->bytes.size();
  } else {
    log_warn("what a slot holds could not be kept", {{"reason", image.error().message}});
    return false;
  }
  write_due_ = true;
  relieve();
  return true;
}

bool PrefixCache::export_checkpoint(int slot) {
  const NodeId node = tip(slot);
  if (node == kNoNode || tree_.find(node)->checkpoint) return false;
  const auto bytes = export_image(slot, layout_.has_value());
  if (!bytes) return false;
  if (!layout_) {
    keep_whole_image(slot, *bytes);
  } else if (make_room(bytes->size(), node)) {  // before there is a copy of it
    auto checkpoint = kvcache::parse_checkpoint(*bytes, image_kind(options_.mode));
    if (!checkpoint) {
      log_warn("a checkpoint could not be kept", {{"reason", checkpoint.error().message}});
      return false;
    }
    checkpoint_bytes_ = checkpoint->bytes.size();
    tree_.set_checkpoint(node, std::make_shared<const Checkpoint>(std::move(*checkpoint)));
  }
  relieve();
  return true;
}

void PrefixCache::keep_whole_image(int slot, std::span<const std::byte> image) {
  const NodeId node = tip(slot);
  // Of use only where the slot stands at the node's end.
  if (static_cast<std::int64_t>(tree_.find(node)->end) != decoder_.position_max(slot) + 1) return;
  checkpoint_bytes_ = image.size();
  if (!make_room(image.size(), node)) return;
  Checkpoint checkpoint{.kind = Checkpoint::Kind::whole};
  checkpoint.bytes.assign(image.begin(), image.end());
  tree_.set_checkpoint(node, std::make_shared<const Checkpoint>(std::move(checkpoint)));
  write_due_ = true;
}

bool PrefixCache::import(CachedPrompt& prompt, const kvcache::Resume& resume, int slot, MonotonicTime now) {
  const auto failed = [&] {
    clear(slot);
    return false;
  };
  const MonotonicTime began = clock_.now();
  const kvcache::Node* node = tree_.find(resume.node);
  if (node == nullptr) return failed();
  std::shared_ptr<const Checkpoint> checkpoint;
  if (needs_checkpoint(options_.mode)) {
    checkpoint = node->checkpoint;
    if (!checkpoint) return failed();
  }
  std::vector<kvcache::Piece> pieces;
  if (keeps_rows(options_.mode)) {
    auto found = kvcache::pieces_of(tree_, resume);
    if (!found) return failed();
    pieces = std::move(*found);
  }
  const kvcache::ImageLayout& layout = layout_ ? *layout_ : kOpaque;
  const kvcache::ImageTarget target{.streams = streams_, .sequence = slot};
  const Bytes size = kvcache::composed_bytes(layout, target, resume.imported, checkpoint.get());
  if (!make_staging(size)) return failed();
  const auto image = kvcache::compose_image(layout, target, pieces, checkpoint.get(), staging_);
  const Bytes returned = image ? decoder_.import_state(slot, false, std::span(staging_).first(*image)) : 0;
  const bool ok = image && kvcache::import_succeeded(
                               returned, *image, decoder_.position_min(slot), decoder_.position_max(slot),
                               static_cast<std::int32_t>(resume.imported) - 1, options_.mode);
  const bool cut = ok && resume.tokens < resume.imported;
  if (!ok || (cut && (!decoder_.remove(slot, static_cast<std::int32_t>(resume.tokens), -1) ||
                      decoder_.position_max(slot) != static_cast<std::int32_t>(resume.tokens) - 1))) {
    ++counts_.failed_imports;
    log_warn("a cached prompt could not be brought back",
             {{"reason", image ? "the library did not take it" : image.error().message}});
    return failed();
  }
  ++counts_.imports;
  rates_.observe_load(Tier::host, size, std::chrono::duration<double>(clock_.now() - began).count());
  tree_.acquire(resume.node);
  if (const NodeId before = std::exchange(prompt.held, resume.node); before != kNoNode) tree_.release(before);
  tree_.touch(resume.node, now, !prompt.parked);
  if (!prompt.ephemeral) tag(prompt, resume.node);
  touch_records(resume.node);
  set_tip(slot, node_within(prompt.domain, prompt.keys, resume.tokens));
  write_due_ = true;

  if (std::exchange(prompt.parked, false)) return true;

  const std::int64_t all = resume.tokens;
  CachedTiers& tiers = prompt.tiers;
  tiers = {};
  if (prompt.waited) tiers.coalesced = std::max<std::int64_t>(0, all - prompt.had);
  tiers.disk = std::min(prompt.disk_tokens, all - tiers.coalesced);
  tiers.host = all - tiers.coalesced - tiers.disk;
  counts_.cached.coalesced += tiers.coalesced;
  counts_.cached.disk += tiers.disk;
  counts_.cached.host += tiers.host;
  return true;
}

}  // namespace gezel::scheduler
