// worker/cache_start.h
//
// The prefix cache of a model that was just loaded: what its memory allows is probed, its records on disk are
// looked for, and its memory is taken.
#pragma once
#include <functional>
#include <memory>

#include "llama/llama.h"
#include "protocol/messages.h"
#include "scheduler/prefix_cache.h"
#include "worker/record_thread.h"

namespace gezel::worker {

struct StartedCache {
  std::unique_ptr<RecordThread> disk;             // null: none
  std::unique_ptr<scheduler::PrefixCache> cache;  // null: switched off
};

// No slot of the context has been used. `wake`: see RecordThread.
StartedCache start_cache(const protocol::Load& load, const llama::Model& model, const llama::Context& context,
                         bool flash_attention, scheduler::Decoder& decoder, const Clock& clock,
                         std::function<void()> wake);

}  // namespace gezel::worker
