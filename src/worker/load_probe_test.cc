#include "worker/load_probe.h"

#include <gtest/gtest.h>

#include "base/test_folder.h"
#include "llama/test_support.h"
#include "worker/context_decoder.h"

namespace gezel::worker {
namespace {

std::unique_ptr<llama::Context> make_context(const llama::Model& model, bool flash) {
  auto made = llama::Context::create(
      model, {.slots = 2, .context_per_slot = 256, .threads = 2, .flash_attention = flash});
  EXPECT_TRUE(made);
  return std::move(*made);
}

// A real context, which may lose what it is given to bring back.
class ProbedContext final : public ContextDecoder {
 public:
  ProbedContext(const llama::Model& model, bool flash) : ProbedContext(make_context(model, flash)) {}
  llama::DecodeCode decode(std::span<const llama::Row> rows) override {
    if (++calls == refused_call) return llama::DecodeCode::no_space;
    return ContextDecoder::decode(rows);
  }
  Bytes export_state(int slot, bool partial, std::span<std::byte> out) override {
    return refuses_exports ? 0 : ContextDecoder::export_state(slot, partial, out);
  }
  Bytes import_state(int slot, bool partial, std::span<const std::byte> image) override {
    if (refuses_imports) return 0;
    if (!spoils) return ContextDecoder::import_state(slot, partial, image);
    Buffer spoiled(image.begin(), image.end());
    // Values of the last layer. The end, which says that other slots are empty, and all else that the library
    // reads of the form stay as they are.
    const std::size_t end = spoiled.size() - 64;
    for (std::size_t i = end - spoiled.size() / 200; i < end; ++i) spoiled[i] = std::byte{0x70};
    return ContextDecoder::import_state(slot, partial, spoiled);
  }

  bool spoils = false, refuses_imports = false, refuses_exports = false;
  int calls = 0, refused_call = 0;

 private:
  explicit ProbedContext(std::unique_ptr<llama::Context> context)
      : ContextDecoder(*context), context_(std::move(context)) {}
  std::unique_ptr<llama::Context> context_;
};

TEST(LoadProbe, PassesWithRealModels) {
  for (const llama::Model* model : {&llama::testing::smollm(), &llama::testing::gemma()}) {
    const auto mode = model->sliding_window() > 0 ? kvcache::Mode::window : kvcache::Mode::full;
    for (const bool flash : {false, true}) {
      ProbedContext context(*model, flash);
      const auto result = probe(context, mode, probe_tokens(model->vocab()), std::nullopt);
      EXPECT_TRUE(result.passed) << result.trouble;
      EXPECT_EQ(result.verdict, true);
      ASSERT_TRUE(result.layout);
      EXPECT_EQ(result.streams, 2u);
      EXPECT_EQ(result.layout->window.has_value(), mode == kvcache::Mode::window);
      EXPECT_EQ(context.position_max(0), -1);
    }
  }
}

TEST(LoadProbe, AKnownVerdictIsNotLookedForAgain) {
  const llama::Model& model = llama::testing::smollm();
  for (const bool verdict : {true, false}) {
    ProbedContext context(model, false);
    const auto result = probe(context, kvcache::Mode::full, probe_tokens(model.vocab()), verdict);
    EXPECT_EQ(result.passed, verdict);
    EXPECT_TRUE(result.layout);
    EXPECT_EQ(context.calls, 1);
  }
}

TEST(LoadProbe, ARestoredPromptThatContinuesDifferentlyFails) {
  const llama::Model& model = llama::testing::smollm();
  ProbedContext context(model, false);
  context.spoils = true;
  const auto result = probe(context, kvcache::Mode::full, probe_tokens(model.vocab()), std::nullopt);
  EXPECT_FALSE(result.passed);
  EXPECT_EQ(result.verdict, false);
  EXPECT_FALSE(result.trouble.empty());
  EXPECT_EQ(context.position_max(0), -1);
}

// Memory may be short this once.
TEST(LoadProbe, ACallThatTheLibraryRefusesIsNoVerdict) {
  const llama::Model& model = llama::testing::smollm();
  const auto look = [&](auto&& spoil) {
    ProbedContext context(model, false);
    spoil(context);
    const auto result = probe(context, kvcache::Mode::full, probe_tokens(model.vocab()), std::nullopt);
    EXPECT_FALSE(result.passed);
    EXPECT_EQ(result.verdict, std::nullopt);
    EXPECT_FALSE(result.trouble.empty());
  };
  look([](ProbedContext& context) { context.refuses_exports = true; });
  look([](ProbedContext& context) { context.refuses_imports = true; });
  for (int call = 1; call <= 4; ++call) look([&](ProbedContext& context) { context.refused_call = call; });
  // While it measures how much logits may differ.
  look([](ProbedContext& context) {
    context.spoils = true;
    context.refused_call = 10;
  });
}

TEST(LoadProbe, VerdictsAreKeptByFingerprint) {
  const TestFolder folder;
  kvcache::Digest one{}, other{};
  other[0] = std::byte{1};
  EXPECT_EQ(read_verdict(folder.path(), one), std::nullopt);
  write_verdict(folder.path(), one, true);
  EXPECT_EQ(read_verdict(folder.path(), one), true);
  EXPECT_EQ(read_verdict(folder.path(), other), std::nullopt);
  write_verdict(folder.path(), one, false);
  EXPECT_EQ(read_verdict(folder.path(), one), false);
}

}  // namespace
}  // namespace gezel::worker
