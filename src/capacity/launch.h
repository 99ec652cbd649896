// capacity/launch.h
//
// May this model be loaded now, and with how many slots, how much context, which cache? (spec 20 sections
// 8-11, 13, 14, 19.5)
//
// Pure policy. Callers pass in what is known of model and machine; the answer is a MemoryPlan. It is tried in
// this order, and the first that works is taken: beside everything that is loaded (fewer slots, then a
// shorter window, but never below the minimum); after stopping idle engines, as few as possible; inside the
// card beside other models; and, where nobody named a window, one slot below the minimum.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "capacity/broker.h"
#include "capacity/evict.h"
#include "capacity/memory_plan.h"
#include "capacity/requirement.h"
#include "capacity/resident.h"
#include "gguf/metadata.h"

namespace gezel::capacity {

struct ModelFacts {
  std::string key;   // in the ledger
  std::string id;    // decides the Gemma family beside the architecture
  std::string name;  // what texts call it
  std::string architecture;
  std::optional<Bytes> weights;   // all shards
  Bytes projector = 0;            // only when it will be loaded
  std::optional<Bytes> resident;  // the catalog's measured figure
  std::optional<KvGeometry> geometry;
  std::optional<Tokens> native;
  bool readable = true;  // false: the file's metadata could not be read
  bool moe = false;
  int blocks = 0;
  std::optional<gguf::TensorSizes> tensors;
  // A draft model beside it.
  Bytes draft_weights = 0;
  std::optional<KvGeometry> draft_geometry;
};
// From a file's header; `weights`, `key`, `id` and `name` are the caller's.
ModelFacts model_facts(const gguf::Metadata& metadata);

struct MachineState {
  Budget pools;
  Bytes total_ram = 0;
  BrokerView broker;
  Bytes committed_other = 0;        // Broker::committed_other(key)
  std::vector<Resident> residents;  // who could be stopped
  std::optional<Bytes> free_ram;    // live; absent in previews
  std::optional<Bytes> free_vram;   // live, as live_vram() accepts it
  Bytes largest_vram = 0;           // of one device, in total
  bool on_gpu = false;              // inference runs on a GPU
};

struct LaunchSettings {
  EngineFamily family = EngineFamily::llama_cpp;
  bool embedded = true;           // our own worker
  ContextWish context;            // `native` is filled in from the model
  std::optional<Tokens> floor;    // GEZEL_MIN_CONTEXT_TOKENS
  std::optional<int> slots;       // providerConcurrency
  std::optional<KvType> kv_type;  // llamaCppKvCacheType
  std::optional<KvChoice> calibrated;
  std::optional<Tokens> micro_batch;  // of our own worker: its caches are then counted as it lays them out
  std::optional<bool> swa_full, catalog_swa_full;
  std::optional<Bytes> kv_ceiling;  // autoKvCacheMaxGb
  bool draft_mtp = false;
  Bytes prompt_cache = 0;  // host memory for idle prompts
  // The same as far as memory is left over: nothing else gets less for it, and most of what is left stays
  // free for other models.
  Bytes spare_cache = 0;
};

struct LaunchInput {
  ModelFacts model;
  MachineState machine;
  LaunchSettings settings;
  std::optional<DryRun> dry_run;
};

MemoryPlan plan_launch(const LaunchInput& input);

// The window that such a launch asks for, before anything is known of memory.
ContextRequirement launch_requirement(const LaunchInput& input);

// What a model would get on this machine when nothing else is loaded: the same plan without live figures.
struct LaunchPreview {
  Tokens context_window = 0, native_context_window = 0;
  Tokens minimum = 0;
  std::optional<Tokens> override_context;  // while one is set
  std::optional<Tokens> auto_context;      // what it would be without
  int slots = 0;
  Bytes planned_resident = 0;   // with one slot
  Bytes reserved_resident = 0;  // with all slots
  Bytes weights_resident = 0;
  Bytes kv_per_token = 0, kv_fixed = 0;  // per slot
};
LaunchPreview preview_launch(LaunchInput input);

// A loaded engine whose window is below what is the least now, or is not the one that was named since: it has
// to be started again. `below_floor`: it was granted a shorter window knowingly.
std::optional<Denial> stale_window(std::string_view name, Tokens resident, bool below_floor,
                                   const LaunchPreview& preview);

}  // namespace gezel::capacity
