#include "calibration/bench_context.h"

#include "base/heap.h"

namespace gezel::calibration {
namespace {

constexpr llama::Token kToken = 17;  // any will do

}  // namespace

Result<> BenchContext::open(const protocol::Measure& measure) {
  llama::ContextOptions options;
  options.slots = measure.streams;
  options.context_per_slot = measure.context;
  options.threads = measure.threads;
  options.flash_attention = measure.flash_attention;
  options.micro_batch_tokens = protocol::kMicroBatchTokens;
  if (measure.kv_type == "q8_0") options.cache_type = llama::CacheType::q8_0;
  GEZEL_TRY(context_, llama::Context::create(model_, options));
  context_->set_abort_flag(&interrupted_);
  filler_.emplace(model_, *context_);
  depth_.assign(static_cast<std::size_t>(measure.streams), 0);
  return {};
}

void BenchContext::close() {
  filler_.reset();
  if (context_ == nullptr) return;
  context_.reset();
  return_free_memory();
}

Bytes BenchContext::memory() const {
  if (context_ == nullptr) return 0;
  const auto use = context_->memory();
  return use.kv + use.compute;
}

Result<> BenchContext::set_depth(int streams, std::int64_t depth) {
  for (int slot = 0; slot < streams; ++slot) {
    auto& held = depth_[static_cast<std::size_t>(slot)];
    // What a call added is taken back; a sliding window has lost cells for it then and is filled again.
    const bool cut =
        held == depth &&
        (context_->position_max(slot) < depth ||
         (model_.sliding_window() == 0 && context_->remove(slot, static_cast<std::int32_t>(depth), -1)));
    if (cut) continue;
    held = -1;
    GEZEL_CHECK(filler_->fill(slot, depth));
    held = depth;
  }
  return {};
}

llama::DecodeCode BenchContext::call(const protocol::Measure& measure) {
  rows_.clear();
  const auto depth = static_cast<std::int32_t>(measure.depth);
  const auto count = static_cast<std::int32_t>(measure.tokens);
  if (measure.kind == "decode") {
    for (std::int32_t slot = 0; slot < count; ++slot)
      rows_.push_back({.token = kToken, .position = depth, .slot = slot, .logits = true});
  } else {
    for (std::int32_t i = 0; i < count; ++i)
      rows_.push_back({.token = kToken, .position = depth + i, .slot = 0, .logits = i + 1 == count});
  }
  const auto code = context_->decode(rows_);
  if (code != llama::DecodeCode::ok) std::ranges::fill(depth_, -1);
  return code;
}

}  // namespace gezel::calibration
