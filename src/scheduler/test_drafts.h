// scheduler/test_drafts.h
//
// For tests of drafts: texts by a rule, so that guesses can be right, wrong, or right for a while.
#pragma once
#include "scheduler/test_scheduler.h"

namespace gezel::scheduler {

inline std::vector<Token> operator+(std::vector<Token> a, const std::vector<Token>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// Goes around in a circle of 20 tokens: what comes next stood in the text before.
inline Token circle(const std::vector<Token>& text) {
  return 1 + text.back() % 20;
}

// As circle(), but now and then it leaves it: drafts fail in the middle.
inline Token stumbling_circle(const std::vector<Token>& text) {
  return text.size() % 37 == 0 ? 40 : circle(text);
}

inline std::string text_by(Token (*rule)(const std::vector<Token>&), std::vector<Token> prompt, int tokens) {
  std::string out;
  for (int i = 0; i < tokens; ++i) {
    prompt.push_back(rule(prompt));
    out += letter(prompt.back());
  }
  return out;
}

}  // namespace gezel::scheduler
