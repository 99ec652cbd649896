// capacity/denial.h
//
// What a person is told when a model is not loaded (spec 20 section 12.4): what is missing, where the memory
// is, and what would help. Figures are in GiB, never raw bytes; settings are described, not named.
#pragma once
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"
#include "capacity/budget.h"
#include "capacity/kv_size.h"

namespace gezel::capacity {

enum class DenialRule {
  budget,        // over what models may take
  co_residency,  // over the card, beside busy models
  context,       // one slot cannot hold the window that is required
  stale_window,  // the loaded engine has another window than is wanted now
  generic,
};
std::string_view denial_rule_name(DenialRule rule);

struct Denial {
  DenialRule rule = DenialRule::generic;
  Error error;         // kind `unavailable`, code `capacity-denied`
  std::string reason;  // "resident-below-minimum" for stale windows, else ""
  // For the log record.
  std::string key;
  Bytes bytes = 0, would_commit = 0, limit = 0;
};

struct BudgetFacts {
  PoolKind kind = PoolKind::system_ram;
  Bytes budget = 0, vram = 0, ram_share = 0, total_ram = 0;
  Bytes committed_other = 0;  // what other models hold
};

Denial deny_over_budget(std::string_view name, Bytes needed, const BudgetFacts& facts);
Denial deny_co_residency(std::string_view name);
// `reason` is a clamp's sentence (ladder.h).
Denial deny_context(std::string_view name, Tokens required, Tokens possible, std::string_view reason);
Denial deny_stale_window(std::string_view name, Tokens resident, Tokens wanted);
// For surfaces that must not show details.
Denial deny_generically();

// Not a denial: a busy engine holds the room and did not become idle in time. Kind `unavailable`, code
// `engine-busy`; trying again helps.
Error engine_busy(std::string_view name);

// "key=... bytes=... would_commit=... limit=... rule=...": one log record per denial.
std::string denial_record(const Denial& denial);

// What a model list shows for a denied model: "restart-required" or "insufficient-memory".
std::string_view context_sizing_status(const Denial& denial);

}  // namespace gezel::capacity
