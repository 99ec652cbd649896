// worker/draft_start.h
//
// The draft model of a model that is being loaded (spec 40 section 11.14): whether it fits, and its context.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "llama/llama.h"
#include "protocol/messages.h"

namespace gezel::worker {

struct StartedDraft {
  std::unique_ptr<llama::Model> model;      // null: there is none
  std::unique_ptr<llama::Context> context;  // slots and window of the model's own; null with `model`
  std::string trouble;                      // why the one that was named is not used
};

// "" where what one model says means the same to the other: the same kind of vocabulary, marks of beginning
// and end, tokens from the sixth on, and hardly more of them in one than in the other (section 11.14.5). Else
// the first difference.
std::string vocabulary_difference(const llama::Vocab& model, const llama::Vocab& draft);

// Loads what `load` names, with a context like `context`. Whatever stands in the way is the result's trouble,
// or where the draft model is required an error, code `unsupported-feature`.
Result<StartedDraft> start_draft(const protocol::Load& load, const llama::Model& model,
                                 const llama::ContextOptions& context,
                                 const std::function<bool(float)>& progress);

}  // namespace gezel::worker
