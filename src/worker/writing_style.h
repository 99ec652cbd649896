// worker/writing_style.h
//
// How a model writes calls and reasoning, found in its chat template: a template shows the markers that its
// model was trained on, whatever the model is called.
#pragma once
#include <string_view>

namespace gezel::worker {

struct WritingStyle {
  std::string_view dialect;  // of grammar/tool_grammar.h; "": no call is shown
  std::string_view family;   // of turn/family.h; "": the universal forms
};

WritingStyle writing_style(std::string_view template_source);

}  // namespace gezel::worker
