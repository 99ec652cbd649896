// cli/completion.h
//
// What a shell may offer at the cursor. The scripts are thin: they pass the words to `gezel __complete`, so
// that they never go stale and the thinking is here, in one place for all shells.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command.h"

namespace gezel::cli {

struct Candidate {
  std::string text;   // ":file" and ":folder" ask the shell for its own completion of paths
  std::string about;  // "" = nothing to say
};

// Where model names come from: qualified ids.
struct ModelLists {
  std::function<std::vector<std::string>()> installed;
  std::function<std::vector<std::string>()> loaded;
  std::function<std::vector<std::string>()> available;
};

// `words`: what stands after the program's name up to the cursor; the last one is being typed and may be
// empty.
std::vector<Candidate> complete_words(const std::vector<std::string>& words, const ModelLists& models);

// The script for "bash", "zsh" or "fish".
std::string_view completion_script(std::string_view shell);

}  // namespace gezel::cli
