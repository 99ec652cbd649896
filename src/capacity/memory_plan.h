// capacity/memory_plan.h
//
// The one object that explains what a model gets and why: log lines, denials, GET /v1/memory/plan and
// `gezel fit` all print it.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "capacity/denial.h"
#include "capacity/kv_choice.h"
#include "capacity/ladder.h"
#include "capacity/offload.h"
#include "capacity/swa.h"

namespace gezel::capacity {

enum class Decision {
  fits,     // with the slots and the window that were planned, beside everything that is loaded
  evict,    // after idle engines were stopped
  smaller,  // with fewer slots or a shorter window
  no,       // not now, see `denial`
};
std::string_view decision_name(Decision decision);

// What the worker measured without allocating: a model loaded and a context created on paper, sizes from the
// library's own breakdown (spec 20 section 7). Of the shape it was made for.
struct DryRun {
  Bytes weights = 0;
  Bytes repack = 0;  // second copies for a processor's matrix units
  Bytes kv = 0;      // all slots
  Bytes compute = 0;
  Bytes process = 0;  // fixed cost of an engine process
  // The shape; kv counts exactly only for the same one. 0 slots: whatever is granted.
  int slots = 0;
  Tokens context = 0;  // per slot
  KvType type = KvType::f16;

  Bytes total() const;  // saturates, as PlanBytes does
};

// The parts of a reservation. They add up to it exactly.
struct PlanBytes {
  Bytes weights = 0;  // projector and draft model included
  Bytes repack = 0;
  Bytes kv = 0;
  Bytes compute = 0;    // buffers and the process itself
  Bytes cache = 0;      // idle prompts kept by the engine
  Bytes total() const;  // saturates: a hostile file's figures must not wrap around to a small one
  bool operator==(const PlanBytes&) const = default;
};

// What was tried on the way to the decision.
struct Alternative {
  std::string what;  // "beside the loaded models", "after stopping llama-cpp:a:0"
  int slots = 0;
  Tokens context = 0;
  Bytes bytes = 0;
  bool possible = false;
  Binding binding = Binding::none;
  std::string why;  // why not, or what it costs
};

// What the decision was made from.
struct PlanInputs {
  Tokens requested = 0, minimum = 0, native = 0;
  int planned_slots = 0;
  Bytes resident = 0, kv_per_token = 0, kv_fixed_per_slot = 0;
  Bytes budget = 0, fast_budget = 0, co_residency = 0, committed_other = 0;
  std::optional<Bytes> free_ram;
  Bytes vram = 0;
};

struct MemoryPlan {
  Decision decision = Decision::no;
  int slots = 0;
  Tokens context = 0;  // per slot
  KvType kv_type = KvType::f16;
  std::optional<bool> flash_attention;
  bool swa_full = false;
  PlanBytes bytes;
  std::vector<std::string> evicts;  // idle engines to stop first
  Tokens largest_context = 0;       // that one slot could safely hold, at most the model's own
  Binding binding = Binding::none;  // what stands in the way of more; of a denial, what denied
  bool estimated = false;           // some figure comes from a heuristic
  bool below_floor = false;         // a shorter window than this machine usually grants
  bool unchecked = false;  // the operator named the window in the environment: reserve with Broker::record()
  bool grown = false;      // a longer one than was asked for
  Offload offload;
  std::optional<Denial> denial;  // set with Decision::no
  PlanInputs inputs;
  std::vector<Alternative> alternatives;
  std::vector<Note> notes;  // for the log

  Bytes reservation() const { return bytes.total(); }
};

// One paragraph for a person: the decision, the parts of the reservation, what binds.
std::string summary(const MemoryPlan& plan, std::string_view name);
// The summary, then inputs and alternatives, a line each.
std::string explain(const MemoryPlan& plan, std::string_view name);

}  // namespace gezel::capacity
