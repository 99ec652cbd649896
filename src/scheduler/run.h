// scheduler/run.h
//
// One request's life inside the scheduler. Private to the scheduler.
#pragma once
#include <string>
#include <vector>

#include "base/utf8.h"
#include "scheduler/scheduler.h"
#include "turn/stop_strings.h"

namespace gezel::scheduler {

// What one tenant's answers were is no guess for another's.
inline std::uint64_t tenant_seed(const std::string& tenant) {
  return tenant.empty() ? 0 : kvcache::session_tag(tenant);
}

// `keys` holds the prompt and every sampled token; the first `fed` of them have KV cells in the run's slot,
// because they were part of a call that succeeded (spec 40 section 11.13). What lies between is pending: fed
// with the next call.
struct Scheduler::Run {
  explicit Run(RunSpec s)
      : spec(std::move(s)),
        keys(spec.prompt),
        prompt_tokens(static_cast<std::int64_t>(keys.size())),
        target(prompt_tokens),
        stops(spec.stop) {}

  RunSpec spec;
  std::vector<Token> keys;
  CachedPrompt prompt;
  std::int64_t fed = 0;
  std::int64_t prompt_tokens = 0;
  std::int64_t cached = 0;
  std::int64_t sampled = 0;
  std::uint64_t order = 0;  // of arrival
  int slot = -1;            // -1: waiting for one
  // So many keys are fed before a token is sampled: the prompt, and after a pre-emption what had been fed.
  std::int64_t target = 0;
  int preemptions = 0;
  bool parked = false;  // gave its slot to another run and waits for one again
  bool paused = false;
  std::int64_t reported_ahead = -1;
  MonotonicTime arrived{}, slot_granted{}, first_token{};
  Utf8Assembler assembler;
  turn::StopStrings stops;
  speculation::Drafter drafter;
  kvcache::TreePlace place;  // of all its tokens
  bool stop_string = false;  // one was found
  std::string trouble;       // why its steering failed

  std::int64_t size() const { return static_cast<std::int64_t>(keys.size()); }
  bool prefilling() const { return slot >= 0 && fed < target; }
  bool decoding() const { return slot >= 0 && fed >= target; }
};

}  // namespace gezel::scheduler
