#include <gmock/gmock.h>
#include <sys/resource.h>

#include <thread>

#include "base/json.h"
#include "llama/llama.h"
#include "llama/test_support.h"

#ifndef __has_feature
#define __has_feature(x) 0
#endif

namespace gezel::llama {
namespace {

using testing::gemma;
using testing::smollm;

std::unique_ptr<Context> make(const Model& model, ContextOptions options) {
  options.threads = 2;
  auto context = Context::create(model, options);
  if (!context) {
    ADD_FAILURE() << context.error().message;
    std::abort();
  }
  return std::move(*context);
}

// Rows of `tokens` in a slot from `position` on; only the last asks for logits.
std::vector<Row> rows_of(std::span<const Token> tokens, int slot, std::int32_t position = 0) {
  std::vector<Row> rows;
  for (const Token token : tokens) rows.push_back({.token = token, .position = position++, .slot = slot});
  if (!rows.empty()) rows.back().logits = true;
  return rows;
}

std::vector<Row> operator+(std::vector<Row> a, const std::vector<Row>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Token best(std::span<const float> logits) {
  return static_cast<Token>(std::ranges::max_element(logits) - logits.begin());
}

std::string greedy(const Model& model, Context& context, std::string_view prompt, int count, int slot) {
  const auto tokens = model.vocab().tokenize(prompt, true, true);
  auto rows = rows_of(tokens, slot);
  std::string text;
  for (int i = 0; i < count; ++i) {
    EXPECT_EQ(context.decode(rows), DecodeCode::ok);
    const Token token = best(context.logits(static_cast<int>(rows.size()) - 1));
    if (model.vocab().is_end_of_generation(token)) break;
    text += model.vocab().piece(token);
    rows = {{.token = token, .position = context.position_max(slot) + 1, .slot = slot, .logits = true}};
  }
  return text;
}

std::vector<Token> filler(int count) {
  const auto tokens =
      smollm().vocab().tokenize("The quick brown fox jumps over the lazy dog. ", false, false);
  std::vector<Token> all;
  while (static_cast<int>(all.size()) < count) all.push_back(tokens[all.size() % tokens.size()]);
  return all;
}

// Recorded where at every step the best token leads by at least 0.6, so that another processor's rounding
// changes nothing.
TEST(Context, AnotherNumberOfThreadsChangesNoAnswer) {
  auto context = make(smollm(), {.slots = 2, .context_per_slot = 256});
  const std::string with_two = greedy(smollm(), *context, "The capital of France is", 12, 0);
  context->set_threads(1);
  EXPECT_EQ(context->threads(), 1);
  EXPECT_EQ(greedy(smollm(), *context, "The capital of France is", 12, 1), with_two);
  context->set_threads(0);
  EXPECT_EQ(context->threads(), 1);
}

TEST(Context, GreedyTextIsTheRecordedOne) {
  const auto cases =
      parse_json(testing::read_whole(std::filesystem::path(GEZEL_TESTDATA) / "llama" / "greedy.json"));
  ASSERT_TRUE(cases) << cases.error().message;
  auto context = make(smollm(), {.slots = 2, .context_per_slot = 512});
  ASSERT_FALSE(cases->as_array().empty());
  for (const auto& c : cases->as_array()) {
    const auto& object = c.as_object();
    EXPECT_EQ(greedy(smollm(), *context, string_or(object, "prompt"),
                     static_cast<int>(int_or(object, "tokens", 0)), 1),
              string_or(object, "text"));
    EXPECT_TRUE(context->remove(1, 0, -1));
  }
}

TEST(Context, GrantsAtLeastTheContextAsked) {
  auto context = make(smollm(), {.slots = 3, .context_per_slot = 700});
  EXPECT_EQ(context->slots(), 3);
  EXPECT_EQ(context->context_per_slot(), 768);
  EXPECT_EQ(context->batch_tokens(), 2048);
  EXPECT_EQ(context->max_outputs(), 11);
}

TEST(Context, KvBytesAreThoseOfTheCells) {
  auto context = make(smollm(), {.slots = 2, .context_per_slot = 512});
  const Bytes per_token = 30ULL * 2 * 3 * 64 * 2;  // layers, K and V, KV heads, head dimension, f16
  EXPECT_EQ(context->memory().kv, 2 * 512 * per_token);
  EXPECT_GT(context->memory().compute, 1 * kMiB);
}

TEST(Context, WindowedLayersKeepOnlyTheirWindow) {
  auto small = make(gemma(), {.slots = 1, .context_per_slot = 2048});
  auto large = make(gemma(), {.slots = 1, .context_per_slot = 8192});
  EXPECT_LT(large->memory().kv, 3 * small->memory().kv);
}

TEST(Context, RefusesOptionsOutOfRangeByName) {
  for (const auto& [options, name] : std::vector<std::pair<ContextOptions, const char*>>{
           {{.slots = 0}, "slots"},
           {{.slots = 100'000}, "slots"},
           {{.context_per_slot = 0}, "context_per_slot"},
           {{.slots = 8, .context_per_slot = std::int64_t{1} << 40}, "context_per_slot"},
           {{.threads = 0}, "threads"},
           {{.batch_tokens = 0}, "batch_tokens"},
           {{.micro_batch_tokens = 0}, "micro_batch_tokens"}}) {
    auto context = Context::create(smollm(), options);
    ASSERT_FALSE(context) << name;
    EXPECT_EQ(context.error().param, name);
  }
}

// The sanitizers' allocators do not answer a limit with a null pointer.
#if !__has_feature(address_sanitizer) && !__has_feature(thread_sanitizer)
TEST(Context, MemoryThatIsNotThereIsAnErrorAndNoCrash) {
  const auto attempt = [] {
    const rlimit limit{.rlim_cur = 4 * kGiB, .rlim_max = 4 * kGiB};
    if (setrlimit(RLIMIT_AS, &limit) != 0) std::exit(2);
    const auto model = testing::load_or_die(testing::smollm_path());
    auto context = Context::create(*model, {.slots = 1, .context_per_slot = 1'000'000});
    std::exit(!context && context.error().code == "engine-out-of-memory" ? 0 : 1);
  };
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(attempt(), ::testing::ExitedWithCode(0), "");
}
#endif

TEST(Context, PositionsFollowDecodeAndRemove) {
  auto context = make(smollm(), {.slots = 3, .context_per_slot = 256});
  EXPECT_EQ(context->position_min(1), -1);
  EXPECT_EQ(context->position_max(1), -1);
  ASSERT_EQ(context->decode(rows_of(filler(20), 1)), DecodeCode::ok);
  EXPECT_EQ(context->position_min(1), 0);
  EXPECT_EQ(context->position_max(1), 19);
  EXPECT_EQ(context->position_max(0), -1);
  EXPECT_TRUE(context->remove(1, 10, -1));
  EXPECT_EQ(context->position_max(1), 9);
  EXPECT_TRUE(context->remove(1, 0, 4));
  EXPECT_EQ(context->position_min(1), 4);
  EXPECT_TRUE(context->remove(1, 0, -1));
  EXPECT_EQ(context->position_max(1), -1);
}

TEST(Context, SlidingWindowForgetsOldPositions) {
  auto context = make(gemma(), {.slots = 1, .context_per_slot = 2048, .micro_batch_tokens = 256});
  const std::vector<Token> tokens(1400, gemma().vocab().tokenize("a", false, false).front());
  ASSERT_EQ(context->decode(rows_of(tokens, 0)), DecodeCode::ok);
  EXPECT_GT(context->position_min(0), 0);
  EXPECT_LE(context->position_min(0), 1400 - gemma().sliding_window());
  EXPECT_EQ(context->position_max(0), 1399);
}

TEST(Context, SlotsOutsideTheContextAreRefused) {
  auto context = make(smollm(), {.slots = 2, .context_per_slot = 256});
  for (const int slot : {-1, 2, 1000}) {
    EXPECT_FALSE(context->remove(slot, 0, -1));
    EXPECT_EQ(context->position_min(slot), -1);
    EXPECT_EQ(context->position_max(slot), -1);
    EXPECT_EQ(context->decode(rows_of(filler(3), slot)), DecodeCode::bad_batch);
  }
}

TEST(Context, BadBatchesChangeNothing) {
  auto context = make(smollm(), {.slots = 2, .context_per_slot = 1024, .batch_tokens = 128});
  ASSERT_EQ(context->decode(rows_of(filler(8), 0)), DecodeCode::ok);
  auto too_many_outputs = rows_of(filler(100), 1);
  for (auto& row : too_many_outputs) row.logits = true;
  const std::vector<std::pair<const char*, std::vector<Row>>> batches = {
      {"none", {}},
      {"too many rows", rows_of(filler(129), 1)},
      {"too many outputs", too_many_outputs},
      {"token too large", {{.token = smollm().vocab().size(), .position = 8, .slot = 0}}},
      {"negative token", {{.token = -1, .position = 8, .slot = 0}}},
      {"negative position", {{.token = 1, .position = -1, .slot = 0}}},
      {"gap", {{.token = 1, .position = 10, .slot = 0}}},
      {"position already filled", {{.token = 1, .position = 3, .slot = 0}}},
      {"empty slot not from 0 on, rows out of order",
       {{.token = 1, .position = 5, .slot = 1}, {.token = 1, .position = 4, .slot = 1}}},
  };
  for (const auto& [what, rows] : batches) EXPECT_EQ(context->decode(rows), DecodeCode::bad_batch) << what;
  EXPECT_EQ(context->position_max(0), 7);
  EXPECT_EQ(context->position_max(1), -1);
}

TEST(Context, FullSlotAnswersNoSpaceAndKeepsItsCells) {
  auto context = make(smollm(), {.slots = 2, .context_per_slot = 256});
  ASSERT_EQ(context->decode(rows_of(filler(250), 0)), DecodeCode::ok);
  EXPECT_EQ(context->decode(rows_of(filler(10), 0, 250)), DecodeCode::no_space);
  EXPECT_EQ(context->position_max(0), 249);
  EXPECT_EQ(context->decode(rows_of(filler(256), 1)), DecodeCode::ok);
}

TEST(Context, LogitsAreThereOnlyForRowsThatAskedForThem) {
  auto context = make(smollm(), {.slots = 1, .context_per_slot = 256});
  ASSERT_EQ(context->decode(rows_of(filler(4), 0)), DecodeCode::ok);
  EXPECT_EQ(context->logits(3).size(), static_cast<std::size_t>(smollm().vocab().size()));
  for (const int index : {-1, 0, 2, 4, 4000}) EXPECT_TRUE(context->logits(index).empty()) << index;
}

TEST(Context, TheSameRequestOnAColdSlotRepeatsBitForBit) {
  for (const Model* model : {&smollm(), &gemma()}) {
    auto context = make(*model, {.slots = 2, .context_per_slot = 512});
    const auto prompt = model->vocab().tokenize("Once upon a time there was a small house", true, false);
    std::vector<std::vector<float>> runs;
    for (int run = 0; run < 3; ++run) {
      ASSERT_EQ(context->decode(rows_of(prompt, run % 2)), DecodeCode::ok);
      const auto logits = context->logits(static_cast<int>(prompt.size()) - 1);
      runs.emplace_back(logits.begin(), logits.end());
      ASSERT_TRUE(context->remove(run % 2, 0, -1));
    }
    EXPECT_EQ(runs[0], runs[1]);
    EXPECT_EQ(runs[0], runs[2]);
  }
}

TEST(Context, SlotsDoNotSeeEachOther) {
  auto context = make(smollm(), {.slots = 4, .context_per_slot = 512});
  const std::string alone = greedy(smollm(), *context, "The capital of France is", 8, 2);
  ASSERT_TRUE(context->remove(2, 0, -1));
  ASSERT_EQ(context->decode(rows_of(filler(40), 1) + rows_of(filler(60), 3)), DecodeCode::ok);
  EXPECT_EQ(greedy(smollm(), *context, "The capital of France is", 8, 2), alone);
}

TEST(Context, ContinuedPromptEqualsWholePrompt) {
  for (const bool flash : {false, true}) {
    auto context = make(smollm(), {.slots = 2, .context_per_slot = 512, .flash_attention = flash});
    const auto tokens = filler(90);
    ASSERT_EQ(context->decode(rows_of(tokens, 0)), DecodeCode::ok);
    const Token whole = best(context->logits(89));
    ASSERT_EQ(context->decode(rows_of(std::span(tokens).first(50), 1)), DecodeCode::ok);
    ASSERT_EQ(context->decode(rows_of(std::span(tokens).subspan(50), 1, 50)), DecodeCode::ok);
    EXPECT_EQ(best(context->logits(39)), whole);
  }
}

TEST(Context, RaisedAbortFlagEndsTheStep) {
  auto context = make(smollm(), {.slots = 1, .context_per_slot = 1024, .micro_batch_tokens = 128});
  std::atomic<bool> stop{true};
  context->set_abort_flag(&stop);
  EXPECT_EQ(context->decode(rows_of(filler(512), 0)), DecodeCode::aborted);
  EXPECT_EQ(context->position_max(0), -1);
  stop = false;
  EXPECT_EQ(context->decode(rows_of(filler(512), 0)), DecodeCode::ok);
  context->set_abort_flag(nullptr);
  EXPECT_EQ(context->decode(rows_of(filler(8), 0, 512)), DecodeCode::ok);
}

TEST(Context, AbortFromAnotherThreadKeepsWholeMicroBatches) {
  auto context = make(smollm(), {.slots = 1, .context_per_slot = 8192, .micro_batch_tokens = 64});
  std::atomic<bool> stop{false};
  context->set_abort_flag(&stop);
  std::atomic<bool> started{false};
  std::jthread canceller([&] {
    started.wait(false);
    stop = true;
  });
  DecodeCode code = DecodeCode::ok;
  for (std::int32_t position = 0; code == DecodeCode::ok && position < 8192; position += 512) {
    started = true;
    started.notify_all();
    code = context->decode(rows_of(filler(512), 0, position));
  }
  EXPECT_EQ(code, DecodeCode::aborted);
  EXPECT_EQ((context->position_max(0) + 1) % 64, 0);
}

TEST(Context, CountsMicroBatchesByTheLibrarysRule) {
  auto context = make(smollm(), {.slots = 4, .context_per_slot = 512, .micro_batch_tokens = 64});
  std::int32_t next[4] = {};
  const auto count = [&](std::vector<std::pair<int, int>> runs) {  // slot, rows
    std::vector<Row> rows;
    for (const auto& [slot, length] : runs) {
      rows = rows + rows_of(filler(length), slot, next[slot]);
      next[slot] += length;
    }
    const auto before = context->micro_batches();
    EXPECT_EQ(context->decode(rows), DecodeCode::ok);
    return context->micro_batches() - before;
  };
  EXPECT_EQ(count({{0, 1}}), 1U);
  EXPECT_EQ(count({{0, 1}, {1, 1}, {2, 1}}), 1U);
  EXPECT_EQ(count({{0, 1}, {2, 1}, {3, 1}}), 2U);
  EXPECT_EQ(count({{2, 1}, {1, 1}, {0, 1}}), 3U);
  EXPECT_EQ(count({{0, 1}, {1, 1}, {2, 9}}), 2U);
  EXPECT_EQ(count({{3, 130}}), 3U);
  EXPECT_EQ(count({{0, 40}, {1, 40}}), 2U);
}

}  // namespace
}  // namespace gezel::llama
