// scheduler/draft_model.h
//
// A smaller model that guesses what a run says next (spec 40 section 11.14, source 3). It has a context of
// its own, with a slot for each slot of the model that it drafts for, and follows the runs there: what it has
// not seen of a run is computed before it can guess, piece by piece where that is much. What it guesses is
// checked like any other draft, so whatever goes wrong here costs speed, never an answer.
//
// On the decode thread only.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "scheduler/decoder.h"

namespace gezel::scheduler {

using Token = std::int32_t;
using RunId = std::uint64_t;

class DraftModel {
 public:
  struct Options {
    int slots = 1;
    std::int64_t context_per_slot = 0;  // tokens
    std::int64_t batch_tokens = 2048;
    int sliding_window = 0;             // tokens; 0: full attention
    int vocabulary = 0;                 // tokens below it are the same for both models
    std::size_t most = 0;               // tokens of one guess; 0: no limit of its own
    std::function<bool(Token)> is_end;  // ends a generation; never guessed
  };
  // What it takes to know a run so well that it can guess.
  static constexpr std::int64_t kNearlyThere = 16;  // tokens it may be behind

  DraftModel(Options options, Decoder& decoder, const Clock& clock);

  // False after its context failed: it guesses nothing any more.
  bool works() const { return works_; }
  std::size_t most() const { return options_.most; }

  // How many of the run's tokens it has not seen. The whole context and more: it cannot follow this run.
  std::int64_t behind(int slot, RunId run, std::span<const Token> tokens);
  // Computes at most so many of them.
  void catch_up(int slot, RunId run, std::span<const Token> tokens, std::int64_t limit);
  // What follows these tokens, at most `depth`; empty while it is more than kNearlyThere behind.
  std::vector<Token> guess(int slot, RunId run, std::span<const Token> tokens, std::size_t depth);
  // Nothing of it may stay.
  void forget(int slot);

  // Moving averages; 0: not known yet.
  double guess_ms() const { return guess_ms_; }    // one guessed token
  double follow_ms() const { return follow_ms_; }  // one token of catch_up()

 private:
  struct Slot {
    RunId run = 0;
    std::vector<Token> held;  // what its cells hold
    std::size_t agreed = 0;   // of those, the first are known to be the run's
  };

  // Removes what is not the run's, and its last token, whose logits are wanted. False: it cannot follow.
  bool follow(int slot, RunId run, std::span<const Token> tokens);
  // One call that ends with logits for its last row.
  bool feed(int slot, std::span<const Token> tokens);
  Token likeliest(int row) const;

  Options options_;
  Decoder& decoder_;
  const Clock& clock_;
  std::vector<Slot> slots_;
  std::vector<llama::Row> rows_;
  double guess_ms_ = 0, follow_ms_ = 0;
  bool works_ = true;
};

}  // namespace gezel::scheduler
