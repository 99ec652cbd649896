// capacity/broker.h
//
// The ledger of memory: what every loaded or loading model may take, and whether another one fits
// (spec 20 section 12).
//
// It lives on the event loop and does no I/O, so every call is atomic. Nothing is evicted here: a model that
// does not fit has a shortfall, and capacity/evict.h says who could make room.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "capacity/budget.h"
#include "capacity/denial.h"

namespace gezel::capacity {

// An engine's name in the ledger: "<engine>:<model>:<replica>". The model may hold ':'.
struct LedgerKey {
  std::string engine, model;
  int replica = 0;
};
// Nothing for a key that is not exactly of that form; bad keys are rejected, not repaired.
std::optional<LedgerKey> parse_ledger_key(std::string_view key);
std::string ledger_key(std::string_view engine, std::string_view model, int replica);

// Memory that an engine has for a while beside its own stands under a name of its own in the ledger, and
// counts as its engine's wherever that is left out.
std::string lent_key(std::string_view engine_key);
// The engine whose memory a key is: the key itself, unless it is a lent_key().
std::string_view owner_of(std::string_view key);

// An explicit budget below this turns enforcement off: everything is granted, and still counted.
inline constexpr Bytes kLeastEnforcedBudget = kGiB;

struct BrokerSettings {
  Budget pools;  // of the machine
  Bytes total_ram = 0;
  std::optional<Bytes> budget;    // localEngineMemoryGb
  std::optional<bool> spillover;  // allowRamSpillover
};

// The rules that hold now, for planners.
struct BrokerView {
  bool enforced = true;
  Bytes budget = 0;        // of all models together; the machine's own where nothing is enforced
  Bytes fast_budget = 0;   // the fast part of it
  Bytes co_residency = 0;  // the limit while another model is loaded
  bool spillover = true;
  Bytes committed = 0;
};

// What one key holds. The larger of the two counts: a grant covers the time until memory is touched, a
// measurement corrects it afterwards.
struct LedgerEntry {
  Bytes granted = 0;        // promised and perhaps not yet touched
  Bytes measured_peak = 0;  // the most that was ever observed; 0: not measured
  Bytes charged() const { return granted > measured_peak ? granted : measured_peak; }
};

// What GET /v1/memory and the status show.
struct BrokerSnapshot {
  BrokerView rules;
  Bytes system_ram = 0, auto_budget = 0;
  bool overridden = false;  // the budget is the user's
  Budget pools;
  bool spillover_auto = false;  // what it would be by itself
  bool spillover_overridden = false;
  std::vector<std::pair<std::string, LedgerEntry>> by_key;  // largest first
};

class Broker {
 public:
  explicit Broker(const BrokerSettings& settings) : settings_(settings) {}

  // Live changes. Shrinking never evicts; it makes the next reserve() fail.
  void set_budget(std::optional<Bytes> budget) { settings_.budget = budget; }
  void set_spillover(std::optional<bool> spillover) { settings_.spillover = spillover; }
  void set_pools(const Budget& pools, Bytes total_ram);  // a container's limit changed

  BrokerView view() const;
  // What other keys hold (a launch), or other models in all their replicas (a preview).
  Bytes committed_other(std::string_view key) const;
  Bytes committed_by_other_models(std::string_view engine, std::string_view model) const;

  // How much is missing for `key` to hold `bytes`; 0: it fits. More than committed_other(): stopping
  // engines cannot help.
  Bytes shortfall(std::string_view key, Bytes bytes) const;

  // Grants `bytes` to `key`, replacing what it had. On failure the old figure stays, and the denial says
  // which rule was broken. `name` is what the text calls the model.
  std::expected<void, Denial> reserve(const std::string& key, Bytes bytes, std::string_view name);
  // The same without asking, for a launch whose costs the operator takes on.
  void record(const std::string& key, Bytes bytes) { ledger_[key].granted = bytes; }
  // An observation of the engine's memory, and what its grant is now known to be (what the worker
  // said that it allocated). Never denied: the memory is in use. A key without reservation is
  // ignored: its engine is gone.
  void measure(const std::string& key, Bytes observed, std::optional<Bytes> granted = {});
  // The engine gave memory back and says what it holds now: what was observed before no longer counts.
  void shrink(const std::string& key, Bytes granted);
  void release(const std::string& key) { ledger_.erase(key); }  // an unknown key is no error

  BrokerSnapshot snapshot() const;
  const std::map<std::string, LedgerEntry>& ledger() const { return ledger_; }
  const BrokerSettings& settings() const { return settings_; }

 private:
  BrokerSettings settings_;
  std::map<std::string, LedgerEntry> ledger_;
};

// The rule behind shortfall(), for planners: `others` is held by other models.
Bytes shortfall(const BrokerView& view, Bytes others, Bytes bytes);

}  // namespace gezel::capacity
