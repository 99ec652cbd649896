// capacity/swa.h
//
// Whether sliding-window layers keep the whole context (--swa-full) or their window only
// (spec 20 section 11.4).
//
// The windowed cache is small and cannot be rewound in part, so that prefixes are not reused across
// requests. For the Gemma family the full one is therefore the default where it fits and where memory is not
// better spent otherwise.
#pragma once
#include <optional>
#include <string>

#include "capacity/ladder.h"

namespace gezel::capacity {

enum class NoteLevel { info, warn };
struct Note {
  NoteLevel level = NoteLevel::info;
  std::string text;
};

struct SwaInput {
  std::optional<bool> configured, catalog;  // llamaCppSwaFull, swaFull
  bool gemma = false;                       // is_gemma_family()
  std::optional<Bytes> full_kv;             // all slots at the requested window; absent: geometry unknown
  Tokens total_tokens = 0;                  // of all slots
  Bytes resident = 0, fast_budget = 0, committed_other = 0;
  Bytes kv_ceiling = 0;
  int planned_slots = 1;
  Ladder ladder;  // with the cost of the full cache
};

struct SwaDecision {
  bool full = false;
  bool declined = false;     // it would have been automatic
  std::optional<Note> note;  // when declined: a policy (info) or a shortage (warn)
};
SwaDecision decide_swa(const SwaInput& input);

}  // namespace gezel::capacity
