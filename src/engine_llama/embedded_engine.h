// engine_llama/embedded_engine.h
//
// The embedded family: one gezel-engine worker per model over an inherited socket (spec 30 sections 2, 3 and
// 13). Spawns it on demand, plans slots and context from the file's metadata, speaks the frame protocol,
// freezes and stops it when idle, and turns its end into a classified error for every request it carried.
#pragma once
#include <array>
#include <boost/asio/any_io_executor.hpp>
#include <filesystem>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "base/clock.h"
#include "catalog/catalog.h"
#include "engine/admission.h"
#include "engine/backend.h"
#include "engine/engine.h"
#include "engine/gpu_gate.h"
#include "engine/request_queue.h"
#include "engine_llama/draft_plan.h"
#include "engine_llama/prompt_cache_settings.h"
#include "models/store.h"
#include "prompt/behaviors.h"

namespace gezel::engine_llama {

// What this worker can compute on: it puts no layer on a GPU yet, whatever its libllama could.
inline constexpr std::array kBuiltBackends{engine::Backend::cpu};

struct EmbeddedOptions {
  std::filesystem::path home;            // for caches, logs, incidents, pid files
  std::filesystem::path engine_program;  // absolute
  int replica = 0;                       // which of the model's workers this is
  int replicas = 1;                      // how many it may have: they share the processors
  std::optional<int> slots;              // the user's wish; unset: planned
  std::optional<std::int64_t> context;
  std::optional<bool> flash_attention;
  std::optional<capacity::KvType> kv_type;
  std::optional<int> threads;
  std::optional<int> target_itl_ms;  // of running answers while prompts are read (spec 40 section 11.12.3)
  Millis idle_timeout{300'000};      // 0: never stopped for idleness
  Millis startup_timeout{180'000};
  Millis ambient_quiet = engine::RequestQueue::kAmbientQuiet;  // 0: ambient work goes at once
  // On what the worker computes. Anything but the processor passes the GPU's gate before each start.
  engine::Backend backend = engine::Backend::cpu;
  bool sandbox = true;
  bool calibration = true;                          // measure while idle, and use what was measured
  bool speculation = true;                          // check drafts where it pays
  DraftSettings draft;                              // a model that makes some of them
  std::vector<std::string> excluded_buffer_types;   // failed the self-test on this machine
  prompt::BehaviorSwitches behaviors;               // over what profiles say
  std::shared_ptr<const catalog::Catalog> catalog;  // whose entries tune their models; null: none do
  PromptCacheSettings prompt_cache;                 // `memory` unset: none
  std::string version;                              // of the daemon, for the worker's log
  std::stop_token ending;  // the service ends: programs that the pool waits for are killed
};

// `model_id` with or without "llama-cpp:". `store` is asked for the model at each start, so that a changed or
// missing file is noticed, and hashes it in the background when it changed. `pool` runs blocking work that a
// start waits for, `slow_pool` the hashing, which takes minutes. `store`, `clock` and the executors outlive
// the engine. Every load asks `admission` for its memory, and one that computes on a GPU passes `gpu` before.
std::unique_ptr<engine::Engine> make_embedded_engine(
    boost::asio::any_io_executor loop, boost::asio::any_io_executor pool,
    boost::asio::any_io_executor slow_pool, std::string model_id, models::ModelStore& store,
    const Clock& clock, std::shared_ptr<engine::Admission> admission, std::shared_ptr<engine::GpuGate> gpu,
    EmbeddedOptions options);

}  // namespace gezel::engine_llama
