// kvcache/resume.h
//
// Where a run starts: how many tokens of its prompt need not be computed, and from where their rows come
// (spec 40 section 11.6). The slot that a run gets may hold more than the tree can give; see slot_choice.h.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "kvcache/load_cost.h"
#include "kvcache/tree.h"

namespace gezel::kvcache {

// Why a prompt starts cold.
enum class Miss { none, no_match, short_match, not_resumable, too_slow };
std::string_view name(Miss miss);

inline constexpr std::uint32_t kMinResumeTokens = 16;

enum class Source : std::uint8_t { slot, host, disk };

struct ResumeStep {
  NodeId node = kNoNode;
  std::uint32_t from = 0, to = 0;  // tokens of the prompt
  Source source = Source::host;    // slot: must be exported first
  int slot = -1;                   // one that holds it
};

struct Resume {
  std::uint32_t tokens = 0;  // the run's first position; 0: cold
  // What is imported: rows of [0, imported). More than `tokens` in mode window one token before a checkpoint:
  // remove [tokens, imported) from the slot after the import.
  std::uint32_t imported = 0;
  NodeId node = kNoNode;          // to acquire(): the deepest that is used
  std::vector<ResumeStep> steps;  // ascending; none for recurrent models
  // Modes that need one: at `imported`, on the host or in that node's record.
  std::shared_ptr<const Checkpoint> checkpoint;
  bool checkpoint_on_disk = false;
  Miss miss = Miss::none;
  std::uint32_t matched = 0;  // the tree's match, usable or not

  bool needs_disk() const;
  bool needs_export() const;
};

// `match` is that of a prompt of `prompt_tokens`, of which at least the last is always computed.
// `token_bytes`: of one token's rows (RowLayout). Where loading takes longer than computing, less is loaded
// or nothing.
Resume plan_resume(const Tree& tree, Mode mode, const Match& match, std::uint32_t prompt_tokens,
                   Bytes token_bytes, const LoadRates& rates);

// The pieces of a resume whose steps are all on the host; nothing when one is not (any more).
std::optional<std::vector<Piece>> pieces_of(const Tree& tree, const Resume& resume);

// Whether an import is what it should be: the library returned the image's size, and the slot's positions are
// those of the plan (`last_position`: of the last imported row). Otherwise clear the slot and start cold.
bool import_succeeded(Bytes returned, Bytes image_bytes, std::int32_t position_min, std::int32_t position_max,
                      std::int32_t last_position, Mode mode);

}  // namespace gezel::kvcache
