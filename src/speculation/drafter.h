// speculation/drafter.h
//
// What a run may say next, guessed cheaply, so that one call can check many tokens instead of computing one
// (spec 40 section 11.14). A guess never changes the text: the scheduler samples every place as it would
// without a draft and keeps what agrees.
//
// Pure, one per run. Not thread-safe.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "speculation/depth.h"
#include "speculation/lookup.h"
#include "speculation/shared_ngrams.h"

namespace gezel::speculation {

// Where drafts come from, in the order they are asked. Long and short matches of a lookup are sources of
// their own: they are right so differently often that one average would tell nothing.
enum class Source : std::uint8_t { tree, long_lookup, short_lookup, shared, model };
inline constexpr std::size_t kSources = 5;

struct Draft {
  Source source = Source::tree;
  std::vector<Token> tokens;  // empty: compute one token as always
};

struct DraftCounts {
  std::uint64_t drafted = 0, accepted = 0;  // tokens
  std::array<std::uint64_t, kSources> drafted_by{}, accepted_by{};
};

class Drafter {
 public:
  struct Question {
    std::span<const Token> tokens;        // all of the run: prompt, and what came so far
    std::span<const Token> continuation;  // what followed here before, by the prefix tree; may be empty
    std::size_t most = kMaxDraft;         // tokens that may be checked
    int others = 0;                       // runs that decode in the same call
    bool replays = false;                 // see DraftCosts
  };
  // `shared` may be null.
  Draft next(const Question& question, const StepRatio& ratio, const SharedNgrams* shared,
             std::uint64_t seed);
  // How many tokens a draft model should guess, each of which costs so much (DraftCosts::per_token); 0: none.
  std::size_t depth_for_model(const Question& question, const StepRatio& ratio, double per_token);
  // False while the source rests: looking there would be for nothing.
  bool wants(Source source) const { return !depths_[static_cast<std::size_t>(source)].off(); }
  // The draft was checked. `ratio`: what the call took in units of one without a draft.
  void checked(const Draft& draft, std::size_t accepted, double ratio);
  // The run went on by so many tokens, with or without a draft.
  void passed(std::size_t tokens);

  const DraftCounts& counts() const { return counts_; }

 private:
  Lookup lookup_;
  std::array<Depth, kSources> depths_{};
  DraftCounts counts_;
};

}  // namespace gezel::speculation
