#include "worker/cache_desk.h"

#include <algorithm>

#include "base/heap.h"

namespace gezel::worker {
namespace {

using kvcache::NodeId;

// Numbers of runs that are no request of the daemon's.
constexpr scheduler::RunId kOwnRuns = scheduler::RunId{1} << 63;

constexpr const char* kKinds[] = {"system", "user", "tail"};

void refuse(protocol::CacheReply& reply, std::string code, std::string message) {
  reply.code = std::move(code);
  reply.message = std::move(message);
}

}  // namespace

void CacheDesk::answer(CacheCommand command) {
  const protocol::CacheQuery& query = command.query;
  protocol::CacheReply reply;
  reply.id = query.id;
  if (cache_ == nullptr) {
    refuse(reply, "cache-off", "The prefix cache is switched off.");
  } else if (query.op == "list") {
    list(reply);
  } else if (query.op == "inspect") {
    if (!inspect(query, reply)) refuse(reply, "cache-node-unknown", "The cache has no such node (any more).");
  } else if (query.op == "pin" || query.op == "unpin") {
    pin(query, reply);
  } else if (query.op == "drop") {
    drop(query, reply);
  } else if (query.op == "shrink") {
    cache_->pressure(clock_.now());
  } else if (query.op == "trim") {
    reply.count = static_cast<std::int64_t>(cache_->give_back_half(clock_.now()));
    return_free_memory();
  } else if (query.op == "flush") {
    const auto before = cache_->statistics().disk.written;
    cache_->save_everything();
    flushes_.push_back({query.id, before});
    return tend();
  } else if (!command.prompt) {
    refuse(reply, "invalid-request", "This needs messages.");
  } else if (query.op == "explain") {
    explain(command, reply);
  } else {
    return warm(std::move(command));
  }
  outbox_.push(std::move(reply));
}

void CacheDesk::tend() {
  if (cache_ == nullptr) return;
  if (!index_remembered_ && cache_->is_indexed()) remember_index();
  if (flushes_.empty() || cache_->writing()) return;
  for (const Flush& flush : flushes_) {
    protocol::CacheReply reply;
    reply.id = flush.query;
    reply.count = static_cast<std::int64_t>(cache_->statistics().disk.written - flush.written_before);
    outbox_.push(std::move(reply));
  }
  flushes_.clear();
}

// The conversations on disk, so that they are found by their text with the tokens that were sampled.
void CacheDesk::remember_index() {
  index_remembered_ = true;
  std::vector<std::pair<MonotonicTime, NodeId>> ends;
  cache_->tree().each([&](NodeId id, const kvcache::Node& node) {
    if (node.kids.empty() && node.disk) ends.emplace_back(node.last_use, id);
  });
  std::ranges::sort(ends);
  if (ends.size() > TokenMemory::kMostPast)
    ends.erase(ends.begin(), ends.end() - static_cast<std::ptrdiff_t>(TokenMemory::kMostPast));
  for (const auto& [time, id] : ends) {
    std::vector<llama::Token> tokens;
    for (const kvcache::Key key : cache_->tree().path_keys(id)) {
      if (kvcache::is_media(key)) break;
      tokens.push_back(static_cast<llama::Token>(key));
    }
    if (!tokens.empty()) memory_.remember(std::move(tokens));
  }
}

protocol::CacheNode CacheDesk::describe(NodeId id, const kvcache::Node& node) const {
  protocol::CacheNode out;
  out.id = id;
  out.parent = node.parent;
  out.start = node.start;
  out.end = node.end;
  out.kind = kKinds[static_cast<std::size_t>(node.cls)];
  out.hits = node.hits;
  out.pins = node.pins;
  out.host_bytes = cache_->tree().bytes(id, kvcache::Tier::host);
  out.disk_bytes = cache_->tree().bytes(id, kvcache::Tier::disk);
  if (!node.slots.empty()) out.slot = node.slots.front();
  const auto age = std::chrono::duration_cast<WallTime::duration>(clock_.now() - node.last_use);
  out.last_use_ms = std::max<std::int64_t>(0, unix_millis(clock_.wall_now() - age));
  return out;
}

void CacheDesk::list(protocol::CacheReply& reply) const {
  cache_->tree().each(
      [&](NodeId id, const kvcache::Node& node) { reply.nodes.push_back(describe(id, node)); });
  reply.count = static_cast<std::int64_t>(reply.nodes.size());
  std::ranges::sort(reply.nodes, std::greater{}, &protocol::CacheNode::last_use_ms);
  if (reply.nodes.size() > protocol::kMaxCacheNodes) reply.nodes.resize(protocol::kMaxCacheNodes);
  // A parent begins before its kids.
  std::ranges::sort(reply.nodes, {}, [](const auto& node) { return std::pair(node.start, node.id); });
}

bool CacheDesk::inspect(const protocol::CacheQuery& query, protocol::CacheReply& reply) const {
  const kvcache::Node* node = cache_->tree().find(query.node);
  if (node == nullptr) return false;
  reply.nodes.push_back(describe(query.node, *node));
  reply.count = 1;
  if (query.text) reply.text = text_of(node->edge);
  return true;
}

std::string CacheDesk::text_of(std::span<const kvcache::Key> keys) const {
  std::string text;
  for (const kvcache::Key key : keys) {
    if (!kvcache::is_media(key)) text += vocab_.piece(static_cast<llama::Token>(key), true);
  }
  return text;
}

std::vector<NodeId> CacheDesk::chosen(const protocol::CacheQuery& query) const {
  const kvcache::Tree& tree = cache_->tree();
  std::vector<NodeId> nodes;
  if (query.node != kvcache::kNoNode) {
    if (tree.find(query.node) != nullptr) nodes.push_back(query.node);
    return nodes;
  }
  const std::uint64_t tag = kvcache::session_tag(query.session);
  const auto uses = [&](const kvcache::Node& node) {
    return std::ranges::find(node.tags, tag) != node.tags.end();
  };
  tree.each([&](NodeId id, const kvcache::Node& node) {
    const bool goes_on =
        std::ranges::any_of(node.kids, [&](const auto& kid) { return uses(*tree.find(kid.second)); });
    if (uses(node) && !goes_on) nodes.push_back(id);
  });
  return nodes;
}

void CacheDesk::pin(const protocol::CacheQuery& query, protocol::CacheReply& reply) {
  const auto nodes = chosen(query);
  if (nodes.empty())
    return refuse(reply, "cache-node-unknown", "The cache has nothing of that name (any more).");
  for (const NodeId node : nodes) {
    if (query.op == "unpin") {
      cache_->unpin(node);
    } else if (const auto pinned = cache_->pin(node); !pinned) {
      return refuse(reply, pinned.error().code, pinned.error().message);
    }
    ++reply.count;
  }
}

void CacheDesk::drop(const protocol::CacheQuery& query, protocol::CacheReply& reply) {
  kvcache::Tree::Dropped dropped;
  if (query.node != kvcache::kNoNode) {
    const kvcache::Node* node = cache_->tree().find(query.node);
    if (node == nullptr) return refuse(reply, "cache-node-unknown", "The cache has no such node (any more).");
    // What only slots have goes with them.
    const auto before = cache_->tree().size();
    scheduler_.clear_idle(std::vector<int>(node->slots));
    reply.count = static_cast<std::int64_t>(before - cache_->tree().size());
    dropped = cache_->drop(query.node);
  } else {
    dropped = scheduler_.drop_session(query.session);
    reply.count = static_cast<std::int64_t>(dropped.in_use);  // these go as soon as they are released
  }
  memory_.forget_past();
  for (const std::uint64_t nodes : dropped.nodes) reply.count += static_cast<std::int64_t>(nodes);
}

void CacheDesk::explain(const CacheCommand& command, protocol::CacheReply& reply) const {
  const scheduler::Forecast forecast = scheduler_.forecast(command.prompt->run);
  reply.tokens = forecast.cached;
  reply.count = static_cast<std::int64_t>(command.prompt->run.prompt.size());
  if (forecast.prefix_break)
    reply.prefix_break = describe(*forecast.prefix_break, command.prompt->span_messages, true);
}

void CacheDesk::warm(CacheCommand command) {
  const scheduler::RunId id = kOwnRuns | ++runs_;
  sink_.silence(
      id, [this, query = command.query.id](const scheduler::RunResult* result, std::string_view trouble) {
        protocol::CacheReply reply;
        reply.id = query;
        if (result == nullptr) {
          refuse(reply, "cache-warm-failed", "The prompt was not computed: " + std::string(trouble) + ".");
        } else {
          reply.tokens = result->prompt_tokens;
          reply.cached_tokens = result->cached_tokens;
        }
        outbox_.push(std::move(reply));
      });
  command.prompt->run.id = id;
  scheduler_.submit(std::move(command.prompt->run));
}

protocol::PrefixBreak CacheDesk::describe(const kvcache::PrefixBreak& found,
                                          std::span<const int> span_messages, bool texts) const {
  protocol::PrefixBreak out;
  out.matched = found.matched;
  out.previous = found.previous;
  if (found.at_message && *found.at_message < span_messages.size())
    out.at_message = span_messages[*found.at_message];
  if (!texts) return out;
  auto snippets = kvcache::snippets(found, [this](kvcache::Key key) {
    return std::string(vocab_.piece(static_cast<llama::Token>(key), true));
  });
  out.before_text = std::move(snippets.before);
  out.now_text = std::move(snippets.now);
  out.then_text = std::move(snippets.then);
  return out;
}

protocol::CacheStats CacheDesk::statistics() const {
  protocol::CacheStats out;
  if (cache_ == nullptr) {
    out.mode = "none";
    return out;
  }
  const scheduler::CacheStatistics figures = cache_->statistics();
  out.mode = std::string(kvcache::name(cache_->is_open() ? cache_->mode() : kvcache::Mode::none));
  out.host_bytes = figures.host_bytes;
  out.host_budget = figures.host_budget;
  out.disk_bytes = figures.disk_bytes;
  out.nodes = figures.nodes;
  out.host_nodes = figures.host_nodes;
  out.disk_nodes = figures.disk_nodes;
  out.cached = {figures.cached.slot, figures.cached.host, figures.cached.disk, figures.cached.coalesced};
  out.misses = figures.misses;
  out.imports = figures.imports;
  out.failed_imports = figures.failed_imports;
  out.exports = figures.exports;
  out.written = figures.disk.written;
  out.loaded = figures.disk.loaded;
  out.corrupt = figures.disk.corrupt;
  out.disk_errors = figures.disk.no_space + figures.disk.write_errors + figures.disk.read_errors;
  out.evicted = figures.evicted;
  const scheduler::Statistics runs = scheduler_.statistics();
  out.verified = runs.verified;
  out.verify_failed = runs.verify_failed;
  return out;
}

}  // namespace gezel::worker
