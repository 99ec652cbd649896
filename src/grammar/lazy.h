// grammar/lazy.h
//
// A tool grammar that sleeps until the model begins a call.
//
// Asleep, every token is allowed, and the visible text is watched for the triggers of the dialect. A token
// that completes a trigger is checked before it counts: what stands behind the trigger in it must be how a
// call may go on. If it is not, the token is refused, and another one is sampled in its place. Awake, the
// grammar constrains until the envelope of calls is complete; then it sleeps again, or, when there may be one
// call only, allows nothing but the end.
//
// A grammar that fails on the way (it became too complex, or a token came that the mask had excluded) is
// given up: everything is allowed from there on.
//
// One sequence, one thread at a time, as Matcher.
#pragma once
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "grammar/matcher.h"
#include "grammar/tool_grammar.h"

namespace gezel::grammar {

struct LazyOptions {
  bool parallel = true;                 // more envelopes may follow the first
  bool triggers_end_reasoning = false;  // an opening marker inside reasoning ends it
};

class LazyMatcher {
 public:
  enum class State { asleep, awake, finished, failed };

  // `fresh`: compiled from ToolGrammar::lark, at its beginning.
  LazyMatcher(Matcher fresh, std::vector<Trigger> triggers, const LazyOptions& options = {});

  State state() const { return state_; }
  // Why the grammar was given up; empty: it was not.
  const std::string& failure() const { return failure_; }

  // The tokens that may come next. Asleep: all but those refused at this place. `mask` as in Matcher.
  Result<> compute_mask(std::span<std::uint32_t> mask);
  // The tokens that must come next; only awake.
  std::vector<Token> forced();

  // A token was sampled. `text`: its bytes as the parser of calls sees them, markers by their names.
  // `visible`: where the visible text begins in it; text.size() when all of it is reasoning. False: it
  // completes a trigger and cannot be; it is not accepted, and compute_mask() has lost it until another token
  // is accepted. Error: something came behind the only call.
  Result<bool> accept(Token token, std::string_view text, std::size_t visible = 0);
  // Takes the last `count` accepted tokens back; at most kMostUndo.
  Result<> rollback(std::size_t count);

  static constexpr std::size_t kMostUndo = 256;

 private:
  struct Seen {
    Token token = 0;
    std::string text;   // visible part
    bool whole = true;  // the visible part is all of the token
  };
  struct Undo {
    State state = State::asleep;
    std::deque<Seen> recent;
    bool started = false;
    std::size_t consumed = 0;          // by the matcher
    std::shared_ptr<Matcher> matcher;  // that the token was given to
  };

  std::optional<std::vector<Token>> woken() const;
  void give_up(std::string why);
  void trim();

  Matcher fresh_;
  std::vector<Trigger> triggers_;
  LazyOptions options_;
  std::size_t longest_ = 0;
  State state_ = State::asleep;
  std::string failure_;
  std::shared_ptr<Matcher> matcher_;
  std::deque<Seen> recent_;  // enough to hold any trigger
  bool started_ = false;     // visible text other than white space came before recent_
  std::vector<Token> refused_;
  std::deque<Undo> undo_;
};

}  // namespace gezel::grammar
