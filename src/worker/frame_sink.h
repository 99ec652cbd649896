// worker/frame_sink.h
//
// What the scheduler reports: as frames to the daemon, and to the memory of tokens.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <string_view>
#include <vector>

#include "llama/llama.h"
#include "scheduler/scheduler.h"
#include "worker/outbox.h"
#include "worker/token_memory.h"

namespace gezel::worker {

class FrameSink final : public scheduler::Sink {
 public:
  FrameSink(Outbox& outbox, const llama::Vocab& vocab, TokenMemory& memory,
            std::function<std::uint64_t()> decode_steps)
      : outbox_(outbox), vocab_(vocab), memory_(memory), decode_steps_(std::move(decode_steps)) {}

  void on_emissions(std::vector<scheduler::Emission> emissions) override;
  void on_prefill(scheduler::RunId id, std::int64_t done, std::int64_t total) override;
  void on_queued(scheduler::RunId id, std::int64_t ahead) override;
  // A run that somebody else is told about: nothing of it goes out as a request's frames.
  using Ended = std::function<void(const scheduler::RunResult* result, std::string_view trouble)>;
  void silence(scheduler::RunId id, Ended ended) { silent_.emplace(id, std::move(ended)); }
  // Goes out with the run's last frame.
  void remember_break(scheduler::RunId id, protocol::PrefixBreak found) { breaks_[id] = std::move(found); }

  void on_slot(int slot, std::span<const scheduler::Token> tokens) override {
    if (tokens.empty()) {
      memory_.retire(slot);
    } else {
      memory_.set(slot, tokens);
    }
  }
  void on_done(const scheduler::RunResult& result) override;
  void on_failed(scheduler::RunId id, scheduler::RunError error, std::string_view detail) override;

 private:
  void progress(scheduler::RunId id, const char* stage, std::int64_t ahead, std::int64_t done,
                std::int64_t total);

  Outbox& outbox_;
  const llama::Vocab& vocab_;
  TokenMemory& memory_;
  std::function<std::uint64_t()> decode_steps_;
  std::map<scheduler::RunId, Ended> silent_;
  std::map<scheduler::RunId, protocol::PrefixBreak> breaks_;
};

}  // namespace gezel::worker
