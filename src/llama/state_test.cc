// Exporting and importing what a slot holds, with the real models.
#include <gtest/gtest.h>

#include "base/pages.h"
#include "llama/llama.h"
#include "llama/test_support.h"

namespace gezel::llama {
namespace {

using testing::gemma;
using testing::smollm;

std::unique_ptr<Context> make(const Model& model, bool flash) {
  auto context =
      Context::create(model, {.slots = 3, .context_per_slot = 1024, .threads = 2, .flash_attention = flash});
  if (!context) {
    ADD_FAILURE() << context.error().message;
    std::abort();
  }
  return std::move(*context);
}

std::vector<float> decode(Context& context, std::span<const Token> tokens, int slot, std::int32_t position) {
  std::vector<Row> rows;
  for (const Token token : tokens) rows.push_back({.token = token, .position = position++, .slot = slot});
  rows.back().logits = true;
  EXPECT_EQ(context.decode(rows), DecodeCode::ok);
  const auto logits = context.logits(static_cast<int>(rows.size()) - 1);
  return {logits.begin(), logits.end()};
}

Buffer exported(const Context& context, int slot, bool partial) {
  Buffer image(context.state_bytes(slot, partial));
  EXPECT_EQ(context.export_state(slot, partial, image), image.size());
  return image;
}

std::vector<Token> prompt_of(const Model& model) {
  std::string text;
  for (int i = 0; i < 40; ++i) text += "Sentence number " + std::to_string(i * 17 % 41) + " is here. ";
  return model.vocab().tokenize(text, true, false);
}

TEST(State, AnImportedSlotContinuesBitForBit) {
  for (const Model* model : {&smollm(), &gemma()}) {
    for (const bool flash : {false, true}) {
      auto context = make(*model, flash);
      const auto prompt = prompt_of(*model);
      const std::span head = std::span(prompt).first(prompt.size() - 4), tail = std::span(prompt).last(4);
      const auto size = static_cast<std::int32_t>(head.size());
      decode(*context, head, 0, 0);
      const Buffer image = exported(*context, 0, false);
      const auto expected = decode(*context, tail, 0, size);
      EXPECT_EQ(context->import_state(2, false, image), image.size());
      EXPECT_EQ(context->position_max(2), size - 1);
      EXPECT_EQ(decode(*context, tail, 2, size), expected);
    }
  }
}

TEST(State, AnImportReplacesWhatTheSlotHeld) {
  auto context = make(smollm(), false);
  const auto prompt = prompt_of(smollm());
  decode(*context, std::span(prompt).first(20), 0, 0);
  const Buffer image = exported(*context, 0, false);
  decode(*context, std::span(prompt).first(50), 1, 0);
  EXPECT_EQ(context->import_state(1, false, image), image.size());
  EXPECT_EQ(context->position_max(1), 19);
}

TEST(State, APartOfAnImageIsRefusedWithoutACrash) {
  auto context = make(smollm(), false);
  const auto prompt = prompt_of(smollm());
  decode(*context, std::span(prompt).first(20), 0, 0);
  const Buffer image = exported(*context, 0, false);
  for (const std::size_t size : {std::size_t{0}, std::size_t{3}, std::size_t{40}, image.size() / 2}) {
    EXPECT_EQ(context->import_state(1, false, std::span(image).first(size)), 0u) << size;
    context->remove(1, -1, -1);
    EXPECT_EQ(context->position_max(1), -1);
  }
}

TEST(State, ThePartialImageOfAWindowIsSmaller) {
  auto context = make(gemma(), false);
  decode(*context, prompt_of(gemma()), 0, 0);
  const Bytes partial = context->state_bytes(0, true), whole = context->state_bytes(0, false);
  EXPECT_GT(partial, 0u);
  EXPECT_LT(partial, whole);
}

TEST(State, SlotsOutsideTheContextHaveNone) {
  auto context = make(smollm(), false);
  Buffer bytes(100);
  for (const int slot : {-1, 3}) {
    EXPECT_EQ(context->state_bytes(slot, false), 0u);
    EXPECT_EQ(context->export_state(slot, false, bytes), 0u);
    EXPECT_EQ(context->import_state(slot, false, bytes), 0u);
  }
}

}  // namespace
}  // namespace gezel::llama
