// worker/constraint_vocabulary.h
//
// A model's vocabulary as constraints see it.
#pragma once
#include <memory>

#include "grammar/vocabulary.h"
#include "llama/llama.h"

namespace gezel::worker {

// `vocab` must outlive the result. Tokens that add nothing to the output (control and unknown ones) are
// reached by their id only: a constraint must not take them for the text of their names. Errors: those of
// Vocabulary::create.
Result<std::shared_ptr<const grammar::Vocabulary>> constraint_vocabulary(const llama::Vocab& vocab);

}  // namespace gezel::worker
