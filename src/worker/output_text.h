// worker/output_text.h
//
// What a token adds to the answer's text. Control tokens add nothing, except those by which a model says where
// reasoning and tool calls begin and end: the daemon's parsers look for their names.
#pragma once
#include <string_view>
#include <vector>

#include "llama/llama.h"

namespace gezel::worker {

class OutputText {
 public:
  // The vocabulary must outlive this.
  explicit OutputText(const llama::Vocab& vocab);

  std::string_view operator()(llama::Token token) const;

 private:
  const llama::Vocab& vocab_;
  std::vector<bool> marker_;  // control tokens that are shown
};

}  // namespace gezel::worker
