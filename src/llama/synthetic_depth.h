// llama/synthetic_depth.h
//
// A slot that is deep without a prompt having been computed: some tokens are computed once, and their rows,
// over and over, are imported as the rows of a long conversation (spec 35 section 2.3). Calls after it take
// the time that they take at that depth; what they compute means nothing.
#pragma once
#include <cstdint>
#include <optional>

#include "kvcache/image.h"
#include "llama/llama.h"

namespace gezel::llama {

class SyntheticDepth {
 public:
  // Both must outlive this. Whatever the context's slots hold is lost.
  SyntheticDepth(const Model& model, Context& context) : model_(model), context_(context) {}

  // From now on the slot holds `depth` tokens, 0 to its context; some 8 ms per 2,048 of them. Errors:
  // `unsupported-feature` (the model's memory cannot be put together from rows), `cancelled` (the context's
  // abort flag was set), `engine-internal`.
  Result<> fill(int slot, std::int64_t depth);

 private:
  Result<> compute_seed(int slot);

  const Model& model_;
  Context& context_;
  // What the computed tokens left behind.
  std::optional<kvcache::ImageLayout> layout_;
  kvcache::Rows seed_, window_seed_;
};

}  // namespace gezel::llama
