// turn/unknown_calls.h
//
// What a looped turn answers to calls that nobody can run: names that no tool has, bodies that fit no grammar
// (spec 50 section 4.5). Nothing of them was executed; the model is told what was wrong, at most
// kCorrectiveRounds times in a turn, and then the turn ends with what is visible. Pure.
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "turn/names.h"
#include "turn/parser.h"
#include "turn/tool_schema.h"

namespace gezel::turn {

inline constexpr int kCorrectiveRounds = 2;
inline constexpr std::size_t kFailedBodyChars = 600;  // of each failed call in the note for the next prompt

// One text for all of them; starts with "ERROR:". Of an unknown name it says whether a tool has a parameter
// of that name, and the nearest name or else the names there are.
std::string unknown_feedback(std::span<const Unparsed> calls, std::span<const ToolSchema> tools);

// The rounds of one turn.
class CorrectiveRounds {
 public:
  struct Answer {
    bool again = false;    // one more iteration, with `feedback` as its newest message
    std::string feedback;  // with `again`
    std::string warning;   // without: for the reply
    std::string note;      // without: for the next prompt, that no tool ran
  };
  // An iteration brought nothing but such calls. The same calls right after feedback end the rounds: saying
  // it again would not help.
  Answer next(std::span<const Unparsed> calls, std::span<const ToolSchema> tools);
  // An iteration brought something else: what comes then is no repetition. The rounds used stay used.
  void other_iteration() { last_.clear(); }

 private:
  int used_ = 0;
  std::string last_;  // names and texts of the last round
};

}  // namespace gezel::turn
