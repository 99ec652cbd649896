#include "llama/synthetic_depth.h"

#include <gtest/gtest.h>

#include "llama/test_support.h"

namespace gezel::llama {
namespace {

using testing::gemma;
using testing::smollm;

std::unique_ptr<Context> make(const Model& model, bool flash, CacheType type = CacheType::f16) {
  auto context = Context::create(model, {.slots = 2,
                                         .context_per_slot = 1536,
                                         .threads = 2,
                                         .flash_attention = flash,
                                         .cache_type = type,
                                         .micro_batch_tokens = 128});
  EXPECT_TRUE(context);
  return std::move(*context);
}

void expect_depth(const Model& model, Context& context) {
  SyntheticDepth filler(model, context);
  for (const std::int64_t depth : {700, 1200, 100}) {
    for (int slot = 0; slot < 2; ++slot) {
      const auto filled = filler.fill(slot, depth);
      ASSERT_TRUE(filled) << filled.error().message;
      EXPECT_EQ(context.position_max(slot), depth - 1);
      const Row next{.token = 5, .position = static_cast<std::int32_t>(depth), .slot = slot, .logits = true};
      ASSERT_EQ(context.decode({&next, 1}), DecodeCode::ok);
      for (const float logit : context.logits(0)) ASSERT_TRUE(std::isfinite(logit));
    }
  }
  EXPECT_TRUE(filler.fill(0, 0));
  EXPECT_EQ(context.position_max(0), -1);
}

TEST(SyntheticDepth, ASlotIsAsDeepAsAskedWithAndWithoutFlashAttention) {
  for (const bool flash : {false, true}) expect_depth(smollm(), *make(smollm(), flash));
  expect_depth(smollm(), *make(smollm(), true, CacheType::q8_0));
}

TEST(SyntheticDepth, TheWindowOfAModelWithOneIsFilledToo) {
  for (const bool flash : {false, true}) expect_depth(gemma(), *make(gemma(), flash));
}

TEST(SyntheticDepth, AnAbortedSeedIsACancellation) {
  auto context = make(smollm(), false);
  const std::atomic<bool> abort{true};
  context->set_abort_flag(&abort);
  const auto filled = SyntheticDepth(smollm(), *context).fill(0, 500);
  ASSERT_FALSE(filled);
  EXPECT_EQ(filled.error().code, "cancelled");
}

}  // namespace
}  // namespace gezel::llama
