// What happens to runs: where they start, for whom they wait, and what the tree learns from them. How images
// move is in prefix_cache_moves.cc, the disk in prefix_cache_disk.cc.
#include "scheduler/prefix_cache.h"

#include <algorithm>
#include <limits>

#include "speculation/lookup.h"

namespace gezel::scheduler {

using kvcache::Class;
using kvcache::kNoNode;
using kvcache::Mode;
using kvcache::NodeId;
using kvcache::Tier;

namespace {

// A request that arrives before its model's records are known waits for them, at most so long.
constexpr Millis kIndexWait{2'000};
constexpr Millis kLeastFetchTime{1'000}, kMostFetchTime{10'000};
// Chains of nodes are joined from this many on: every request walks them.
constexpr std::size_t kManyNodes = 2'000;

Millis milliseconds(double ms) {
  return Millis(static_cast<std::int64_t>(std::clamp(ms, 0.0, 1e9)));
}

}  // namespace

PrefixCache::PrefixCache(CacheOptions options, Decoder& decoder, RecordIo* io, const Clock& clock)
    : options_(options),
      decoder_(decoder),
      io_(io),
      clock_(clock),
      tree_({.mode = options.mode, .host_budget = options.host_budget, .disk_budget = options.disk_budget}),
      host_budget_(options.host_budget),
      tips_(static_cast<std::size_t>(options.slots), kNoNode),
      indexed_(io == nullptr),
      domains_{options.domain} {}

kvcache::Digest PrefixCache::domain_for(const std::string& tenant) const {
  return tenant.empty() ? options_.domain : kvcache::domain_of("", "", tenant, "");
}

void PrefixCache::open(std::optional<kvcache::ImageLayout> layout, std::uint32_t streams) {
  if (options_.mode == Mode::none) return;
  open_ = true;
  layout_ = std::move(layout);
  streams_ = streams;
  // Touched once: the first touch of memory takes as long as three copies into it.
  staging_.assign(options_.staging_limit, std::byte{0});
  write_due_ = changed_ = true;
}

kvcache::Resume PrefixCache::offer(const CachedPrompt& prompt) const {
  if (!open_) return {};
  const bool disk = io_ != nullptr && !prompt.disk_given_up;
  return kvcache::plan_resume(tree_, options_.mode, tree_.match(prompt.domain, prompt.keys),
                              static_cast<std::uint32_t>(prompt.keys.size()),
                              layout_ ? layout_->rows.token_bytes() : 0,
                              disk ? rates_ : rates_.without_disk());
}

bool PrefixCache::must_wait(CachedPrompt& prompt, std::uint32_t have, MonotonicTime now) {
  if (!moves()) return false;
  if (flight_.waiting(prompt.id) != nullptr) return true;
  if (!flight_.wait(prompt.id, prompt.domain, prompt.keys, have, now)) return false;
  if (!std::exchange(prompt.waited, true)) prompt.had = have;
  return true;
}

bool PrefixCache::fetch(CachedPrompt& prompt, const kvcache::Resume& resume, MonotonicTime now) {
  if (io_ == nullptr || !open_ || prompt.disk_given_up) return false;
  const auto give_up = [&] {
    prompt.disk_given_up = true;
    prompt.fetch_until.reset();
    return false;
  };
  if (!indexed_) {
    const auto most = std::min(kIndexWait, milliseconds(rates_.prefill_ms(prompt.keys.size())));
    prompt.fetch_until = prompt.arrived + most;
    if (now < *prompt.fetch_until) return true;
    return give_up();
  }
  if (!resume.needs_disk()) {
    prompt.fetch_until.reset();
    return false;
  }
  std::map<kvcache::Digest, NodeId> records;
  std::uint32_t tokens = 0;
  for (const kvcache::ResumeStep& step : resume.steps) {
    if (step.source != kvcache::Source::disk) continue;
    records[tree_.find(step.node)->disk->id] = step.node;
    tokens += step.to - step.from;
  }
  if (resume.checkpoint_on_disk) records[tree_.find(resume.node)->disk->id] = resume.node;
  if (prompt.fetched.empty() || !prompt.fetch_until) {
    const auto expected =
        milliseconds(3 * rates_.load_ms(Tier::disk, tokens * (layout_ ? layout_->rows.token_bytes() : 0)));
    prompt.fetch_until = now + std::clamp(expected, kLeastFetchTime, kMostFetchTime);
  }
  bool under_way = false;
  for (const auto& [id, node] : records) {
    under_way = under_way || loading_.contains(id);
    if (!prompt.fetched.insert(id).second || loading_.contains(id)) continue;
    const kvcache::DiskRef record = tree_.find(node)->disk;
    if (!begin_load(*record, resume.node, now)) continue;
    const auto keys = tree_.path_keys(node);
    io_->load(id, {keys.begin() + record->start, keys.end()});
    under_way = true;
  }
  // Read and still not here: there is no room for it.
  if (under_way && now < *prompt.fetch_until) {
    prompt.disk_tokens =
        std::max<std::int64_t>(prompt.disk_tokens, keeps_rows(options_.mode) ? tokens : resume.tokens);
    return true;
  }
  return give_up();
}

void PrefixCache::set_tip(int slot, NodeId node) {
  tree_.set_slot(slot, node);
  tips_[static_cast<std::size_t>(slot)] = node;
}

NodeId PrefixCache::node_within(const kvcache::Digest& domain, std::span<const kvcache::Key> keys,
                                std::uint32_t tokens) const {
  NodeId deepest = kNoNode;
  for (const NodeId id : tree_.match(domain, keys.first(tokens)).path) {
    if (tree_.find(id)->end <= tokens) deepest = id;
  }
  return deepest;
}

// As soon as it is used: a record names the sessions that are known when it is written, and what names none
// cannot be deleted with its session.
void PrefixCache::tag(const CachedPrompt& prompt, NodeId node) {
  if (!prompt.session.empty() && !prompt.forgotten) tree_.tag(node, kvcache::session_tag(prompt.session));
}

void PrefixCache::keep(CachedPrompt& prompt, int slot, std::uint32_t tokens, MonotonicTime now) {
  set_tip(slot, node_within(prompt.domain, prompt.keys, tokens));
  tree_.touch(tip(slot), now, true);
  if (!prompt.ephemeral) tag(prompt, tip(slot));
  touch_records(tip(slot));
  prompt.tiers = {.slot = tokens};
  counts_.cached.slot += tokens;
  write_due_ = true;  // a hit may make it worth a file
}

void PrefixCache::dropped(int slot) {
  set_tip(slot, kNoNode);
}

void PrefixCache::begin(CachedPrompt& prompt, std::uint32_t fed, Millis predicted, MonotonicTime now) {
  if (fed == 0) ++counts_.misses;
  const Bytes row = layout_ ? layout_->rows.token_bytes() : 0;
  const auto boundaries = kvcache::plan_boundaries(
      prompt.token_ends, prompt.keys, prompt.spans,
      {.mode = options_.mode, .spacing = kvcache::checkpoint_spacing(checkpoint_bytes_, row), .after = fed});
  std::vector<std::uint32_t> ends;
  prompt.system_end = 0;
  for (const kvcache::Boundary& boundary : boundaries) {
    ends.push_back(boundary.tokens);
    if (boundary.cls == Class::system) prompt.system_end = boundary.tokens;
  }
  flight_.lead(prompt.id, prompt.domain, prompt.keys, std::move(ends), fed, predicted, now);
}

std::optional<std::uint32_t> PrefixCache::next_stop(const CachedPrompt& prompt) const {
  // Where any token can be a node's end, a boundary is made when it has been passed.
  return needs_checkpoint(options_.mode) ? flight_.next_boundary(prompt.id) : flight_.next_wanted(prompt.id);
}

bool PrefixCache::fed(CachedPrompt& prompt, int slot, std::uint32_t tokens, MonotonicTime now) {
  bool rows = false, checkpoint = false;
  std::uint32_t reached = 0, at = 0;
  // advanced() comes last: whoever waits finds what was exported.
  std::vector<std::uint32_t> passed;
  for (auto next = flight_.next_boundary(prompt.id); next && *next <= tokens;
       next = flight_.boundary_after(prompt.id, at)) {
    at = *next;
    passed.push_back(at);
  }
  for (const std::uint32_t end : passed) {
    const bool wanted = flight_.wanted(prompt.id, end);
    if ((prompt.forgotten || (prompt.ephemeral && end > prompt.system_end)) && !wanted) continue;
    const Class cls = end <= prompt.system_end ? Class::system : Class::user;
    const NodeId node = tree_.commit(prompt.domain, prompt.keys, end, cls, slot, now);
    if (node == kNoNode) continue;
    tag(prompt, node);
    tips_[static_cast<std::size_t>(slot)] = node;
    reached = end;
    rows = rows || wanted || end == prompt.system_end;
  }
  bool moved = false;
  if (reached > 0 && moves()) {
    checkpoint = needs_checkpoint(options_.mode) && reached == tokens;
    if (rows && safe_tokens(tip(slot)) < reached) {
      moved = export_slot(slot, 0);
    } else if (checkpoint) {
      moved = export_checkpoint(slot);
    }
    if (checkpoint) tree_.thin_checkpoints(tip(slot));
  }
  if (!passed.empty()) changed_ = !flight_.advanced(prompt.id, passed.back()).empty() || changed_;
  if (tokens >= prompt.keys.size()) changed_ = !flight_.ended(prompt.id).empty() || changed_;
  return moved;
}

void PrefixCache::finish(CachedPrompt& prompt, int slot, std::span<const Token> tokens, MonotonicTime now) {
  changed_ = !flight_.ended(prompt.id).empty() || changed_;
  flight_.forget(prompt.id);
  if (slot >= 0 && !prompt.ephemeral && !prompt.forgotten) {
    const kvcache::Node* last = tree_.find(tip(slot));
    const auto size = static_cast<std::uint32_t>(tokens.size());
    if (size - (last == nullptr ? 0 : std::min(last->end, size)) >= kvcache::kMinTailTokens) {
      const Class cls = size <= prompt.keys.size() ? Class::user : Class::tail;
      const NodeId node = tree_.commit(prompt.domain, kvcache::token_keys(tokens), size, cls, slot, now);
      if (node != kNoNode) tips_[static_cast<std::size_t>(slot)] = node;
    }
    tag(prompt, tip(slot));
  }
  if (prompt.held != kNoNode) tree_.release(std::exchange(prompt.held, kNoNode));
  drop_released();
  if (tree_.size() > kManyNodes) tree_.merge();
}

std::vector<Token> PrefixCache::continuation(const kvcache::Digest& domain, std::span<const Token> tokens,
                                             std::size_t limit, kvcache::TreePlace& place) const {
  std::vector<Token> out;
  for (const kvcache::Key key :
       tree_.continuation(domain, tokens, std::min(limit, speculation::kMaxDraft), place)) {
    if (key > static_cast<kvcache::Key>(std::numeric_limits<Token>::max())) break;  // a picture
    out.push_back(static_cast<Token>(key));
  }
  return out;
}

bool PrefixCache::tend(MonotonicTime now) {
  set_host_budget(now);
  if (io_ != nullptr) {
    for (auto& completion : io_->take()) take(std::move(completion), now);
    write_next();
  }
  changed_ = !flight_.expired(now).empty() || changed_;
  return std::exchange(changed_, false);
}

void PrefixCache::pressure(MonotonicTime now) {
  host_budget_.pressure(now);
  set_host_budget(now);
}

Bytes PrefixCache::give_back_half(MonotonicTime now) {
  Bytes keeps = (host_budget_.whole() + options_.staging_limit + options_.scratch) / 2;
  if (keeps < kLeastCache + options_.scratch) keeps = 0;
  const Bytes staging = std::min(options_.staging_limit, keeps / kStagingShare);
  host_budget_.shrink(keeps - std::min(keeps, staging + options_.scratch));
  if (options_.staging_limit > 0) options_.staging_limit = std::max<Bytes>(staging, 1);
  if (staging_.size() > staging) Buffer().swap(staging_);
  set_host_budget(now);
  return keeps;
}

CacheStatistics PrefixCache::statistics() const {
  CacheStatistics out = counts_;
  out.host_bytes = tree_.used(Tier::host);
  out.host_budget = host_budget_.now();
  out.disk_bytes = tree_.used(Tier::disk);
  out.nodes = static_cast<std::int64_t>(tree_.size());
  tree_.each([&](NodeId, const kvcache::Node& node) {
    out.host_nodes += node.has_host() ? 1 : 0;
    out.disk_nodes += node.disk ? 1 : 0;
  });
  if (io_ != nullptr) out.disk = io_->statistics();
  return out;
}

std::optional<kvcache::PrefixBreak> PrefixCache::find_break(const CachedPrompt& prompt) const {
  return kvcache::find_prefix_break(tree_, prompt.domain, prompt.keys, prompt.token_ends, prompt.spans);
}

kvcache::Tree::Dropped PrefixCache::drop(NodeId node) {
  auto dropped = tree_.drop(node);
  note(dropped);
  return dropped;
}

kvcache::Tree::Dropped PrefixCache::drop_session(const std::string& session) {
  return drop_tag(kvcache::session_tag(session));
}

kvcache::Tree::Dropped PrefixCache::drop_tag(std::uint64_t session) {
  auto dropped = tree_.drop_session(session);
  // Their owner clears them.
  for (const int slot : dropped.slots) set_tip(slot, kNoNode);
  note(dropped);
  drop_from_index(session);
  if (dropped.in_use > 0 || !indexed_) {  // its records may not be known yet
    dropped_sessions_.insert(session);
  } else {
    dropped_sessions_.erase(session);
  }
  return dropped;
}

void PrefixCache::drop_released() {
  const auto sessions = dropped_sessions_;
  for (const std::uint64_t session : sessions) drop_tag(session);
}

}  // namespace gezel::scheduler
