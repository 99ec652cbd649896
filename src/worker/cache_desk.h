// worker/cache_desk.h
//
// Answers what is asked about the prefix cache (protocol::CacheQuery), and says of prompts where they left
// it. On the decode thread.
#pragma once
#include <optional>

#include "llama/llama.h"
#include "scheduler/scheduler.h"
#include "worker/commands.h"
#include "worker/frame_sink.h"
#include "worker/outbox.h"

namespace gezel::worker {

class CacheDesk {
 public:
  // `cache`: null when it is switched off.
  CacheDesk(scheduler::Scheduler& scheduler, scheduler::PrefixCache* cache, const llama::Vocab& vocab,
            TokenMemory& memory, FrameSink& sink, Outbox& outbox, const Clock& clock)
      : scheduler_(scheduler),
        cache_(cache),
        vocab_(vocab),
        memory_(memory),
        sink_(sink),
        outbox_(outbox),
        clock_(clock) {}

  void answer(CacheCommand command);
  // Between steps: answers what has waited for the disk.
  void tend();
  protocol::CacheStats statistics() const;
  // With texts or without.
  protocol::PrefixBreak describe(const kvcache::PrefixBreak& found, std::span<const int> span_messages,
                                 bool texts) const;

 private:
  struct Flush {
    std::uint64_t query = 0;
    std::uint64_t written_before = 0;
  };
  void remember_index();
  void list(protocol::CacheReply& reply) const;
  bool inspect(const protocol::CacheQuery& query, protocol::CacheReply& reply) const;
  void pin(const protocol::CacheQuery& query, protocol::CacheReply& reply);
  void drop(const protocol::CacheQuery& query, protocol::CacheReply& reply);
  void explain(const CacheCommand& command, protocol::CacheReply& reply) const;
  void warm(CacheCommand command);
  protocol::CacheNode describe(kvcache::NodeId id, const kvcache::Node& node) const;
  std::string text_of(std::span<const kvcache::Key> keys) const;
  // The named node, or the ends of what the named session uses.
  std::vector<kvcache::NodeId> chosen(const protocol::CacheQuery& query) const;

  scheduler::Scheduler& scheduler_;
  scheduler::PrefixCache* const cache_;
  const llama::Vocab& vocab_;
  TokenMemory& memory_;
  FrameSink& sink_;
  Outbox& outbox_;
  const Clock& clock_;
  std::vector<Flush> flushes_;
  std::uint64_t runs_ = 0;  // of warm
  bool index_remembered_ = false;
};

}  // namespace gezel::worker
