// The scheduler against a decoder that keeps real books: it knows which positions each slot holds, refuses
// rows that do not continue them, and answers with logits that make the next token a function of the slot's
// whole content. Wrong reuse, a lost cell or a mixed-up row therefore changes the text.
#include "scheduler/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>
#include <set>

namespace gezel::scheduler {
namespace {

using testing::ElementsAre;

constexpr int kVocab = 64;
constexpr Token kEnd = 0;

class FakeDecoder final : public Decoder {
 public:
  explicit FakeDecoder(int slots, std::int64_t context)
      : cells_(static_cast<std::size_t>(slots)), context_(context) {}

  llama::DecodeCode decode(std::span<const llama::Row> rows) override {
    ++calls;
    row_counts.push_back(static_cast<int>(rows.size()));
    if (next_code != llama::DecodeCode::ok) {
      const auto code = std::exchange(next_code, llama::DecodeCode::ok);
      return code;
    }
    for (const llama::Row& row : rows) {
      if (refused_slots.contains(row.slot)) {
        next_code = std::exchange(code_after_refusal, llama::DecodeCode::ok);
        return llama::DecodeCode::bad_batch;
      }
    }
    int previous = -1;
    outputs_.assign(rows.size(), {});
    for (std::size_t i = 0; i < rows.size(); ++i) {
      auto& cells = cells_[static_cast<std::size_t>(rows[i].slot)];
      EXPECT_EQ(rows[i].position, static_cast<int>(cells.size())) << "a row must continue its slot";
      EXPECT_LT(rows[i].position, context_);
      EXPECT_GE(rows[i].slot, previous) << "rows come in slot order";
      previous = rows[i].slot;
      cells.push_back(rows[i].token);
      if (rows[i].logits) outputs_[i] = nonsense ? std::vector<float>(kVocab, -INFINITY) : predict(cells);
      if (abort_after && cells.size() == *abort_after) {
        abort_after.reset();
        return llama::DecodeCode::aborted;
      }
    }
    if (clock != nullptr) clock->advance(Millis(static_cast<int>(rows.size())));
    return llama::DecodeCode::ok;
  }
  std::span<const float> logits(int row) override {
    const auto& out = outputs_[static_cast<std::size_t>(row)];
    EXPECT_FALSE(out.empty()) << "logits were not asked for in that row";
    return out;
  }
  bool remove(int slot, std::int32_t from, std::int32_t to) override {
    auto& cells = cells_[static_cast<std::size_t>(slot)];
    EXPECT_LT(to, 0);
    if (from > 0 && uncuttable) return false;
    cells.resize(std::min(cells.size(), static_cast<std::size_t>(std::max(from, 0))));
    return true;
  }
  std::int32_t position_min(int slot) override {
    return cells_[static_cast<std::size_t>(slot)].empty()
               ? -1
               : std::min<std::int32_t>(window_start, position_max(slot));
  }
  std::int32_t position_max(int slot) override {
    return static_cast<std::int32_t>(cells_[static_cast<std::size_t>(slot)].size()) - 1;
  }

  // The next token of a text: a hash of all of it, never the end token unless the text asks for it.
  static Token next(const std::vector<Token>& text) {
    if (text.back() == 63) return kEnd;
    std::uint32_t hash = 17;
    for (const Token token : text) hash = hash * 31 + static_cast<std::uint32_t>(token);
    return static_cast<Token>(1 + hash % 60);
  }

  int calls = 0;
  std::vector<int> row_counts;
  llama::DecodeCode next_code = llama::DecodeCode::ok;
  llama::DecodeCode code_after_refusal = llama::DecodeCode::ok;
  bool nonsense = false;  // logits that leave no token possible
  std::set<int> refused_slots;
  std::optional<std::size_t> abort_after;
  bool uncuttable = false;
  std::int32_t window_start = 0;
  ManualClock* clock = nullptr;

 private:
  static std::vector<float> predict(const std::vector<Token>& cells) {
    std::vector<float> out(kVocab, 0.0F);
    out[static_cast<std::size_t>(next(cells))] = 10.0F;
    return out;
  }
  std::vector<std::vector<Token>> cells_;
  std::vector<std::vector<float>> outputs_;
  std::int64_t context_;
};

struct Recorder final : Sink {
  void on_emissions(std::vector<Emission> emissions) override {
    for (const Emission& emission : emissions) text[emission.id] += emission.text;
  }
  void on_prefill(RunId id, std::int64_t computed, std::int64_t total) override {
    if (!cached.contains(id)) cached[id] = computed;
    prefill[id].push_back(computed);
    EXPECT_LE(computed, total);
  }
  void on_queued(RunId id, std::int64_t ahead) override { queued[id] = ahead; }
  void on_done(const RunResult& result) override { done[result.id] = result; }
  void on_failed(RunId id, RunError error, std::string_view) override { failed[id] = error; }

  std::map<RunId, std::string> text;
  std::map<RunId, std::int64_t> cached, queued;
  std::map<RunId, std::vector<std::int64_t>> prefill;
  std::map<RunId, RunResult> done;
  std::map<RunId, RunError> failed;
};

std::string letter(Token token) {
  return std::string(1, static_cast<char>('!' + token));
}

// What a run must produce, computed without any scheduler.
std::string expected_text(std::vector<Token> prompt, int tokens) {
  std::string out;
  for (int i = 0; i < tokens; ++i) {
    const Token token = FakeDecoder::next(prompt);
    if (token == kEnd) break;
    out += letter(token);
    prompt.push_back(token);
  }
  return out;
}

std::vector<Token> words(int count, int seed) {
  std::mt19937 random(static_cast<unsigned>(seed));
  std::vector<Token> out;
  for (int i = 0; i < count; ++i) out.push_back(static_cast<Token>(1 + random() % 60));
  return out;
}

class SchedulerTest : public testing::Test {
 protected:
  void make(int slots, std::int64_t context = 4096, Options options = {}) {
    options.slots = slots;
    options.context_per_slot = context;
    decoder_ = std::make_unique<FakeDecoder>(slots, context);
    decoder_->clock = &clock_;
    scheduler_ = std::make_unique<Scheduler>(
        options, *decoder_,
        Vocabulary{[this](Token token) { return std::string_view(pieces_[static_cast<std::size_t>(token)]); },
                   [](Token token) { return token == kEnd; }},
        clock_, sink_);
  }
  SchedulerTest() {
    for (Token token = 0; token < kVocab; ++token) pieces_.push_back(letter(token));
    auto view = std::make_shared<sampling::VocabView>();
    view->size = kVocab;
    view->end_of_generation = {kEnd};
    view->piece = [](Token token) { return letter(token); };
    view_ = view;
  }
  RunSpec spec(RunId id, std::vector<Token> prompt, std::optional<std::int64_t> max_tokens = 10) {
    sampling::SamplingParams params;
    params.temperature = 0;
    return RunSpec{.id = id,
                   .prompt = std::move(prompt),
                   .max_tokens = max_tokens,
                   .sampler = sampling::Sampler(params, view_),
                   .stop = {}};
  }
  void run_all() {
    for (int i = 0; i < 100'000 && scheduler_->runnable(); ++i) scheduler_->step();
    ASSERT_FALSE(scheduler_->runnable());
  }

  ManualClock clock_;
  Recorder sink_;
  std::vector<std::string> pieces_;
  std::shared_ptr<const sampling::VocabView> view_;
  std::unique_ptr<FakeDecoder> decoder_;
  std::unique_ptr<Scheduler> scheduler_;
};

TEST_F(SchedulerTest, ProducesTheTextOfTheModel) {
  make(1);
  scheduler_->submit(spec(1, words(100, 1)));
  run_all();
  EXPECT_EQ(sink_.text[1], expected_text(words(100, 1), 10));
  EXPECT_TRUE(sink_.done[1].length);
  EXPECT_EQ(sink_.done[1].prompt_tokens, 100);
  EXPECT_EQ(sink_.done[1].completion_tokens, 10);
}

TEST_F(SchedulerTest, ManyRunsAtOnceDoNotDisturbEachOther) {
  make(4);
  for (RunId id = 1; id <= 9; ++id)
    scheduler_->submit(spec(id, words(50 + static_cast<int>(id) * 37, static_cast<int>(id)), 20));
  run_all();
  for (RunId id = 1; id <= 9; ++id) {
    EXPECT_EQ(sink_.text[id], expected_text(words(50 + static_cast<int>(id) * 37, static_cast<int>(id)), 20))
        << id;
  }
}

TEST_F(SchedulerTest, StopsAtTheEndTokenWithoutPrintingIt) {
  make(1);
  scheduler_->submit(spec(1, {5, 63}));
  run_all();
  EXPECT_EQ(sink_.text[1], "");
  EXPECT_FALSE(sink_.done[1].length);
}

TEST_F(SchedulerTest, SaysHowItsStepsCompareWithWhatWasMeasured) {
  make(1);
  scheduler_->submit(spec(1, words(10, 1)));
  run_all();
  EXPECT_EQ(scheduler_->pace(), 0);  // nothing was
  ASSERT_TRUE(scheduler_->costs().knows_decode());
  const double usual = scheduler_->costs().decode_ms(1, 10);
  Options options;
  for (int i = 0; i < 20; ++i) options.costs.observe_decode(1, 10, usual / 2);
  make(1, 4096, options);
  EXPECT_TRUE(scheduler_->costs().knows_decode());  // before the first step
  scheduler_->submit(spec(2, words(10, 1), 100));
  run_all();
  EXPECT_NEAR(scheduler_->pace(), 2, 0.2);
}

TEST_F(SchedulerTest, ContinuingConversationReusesItsCells) {
  make(2);
  std::vector<Token> prompt = words(200, 3);
  scheduler_->submit(spec(1, prompt, 20));
  run_all();
  // Spec 40, case 39: the last token was returned but never fed.
  std::vector<Token> next = prompt;
  for (const char c : sink_.text[1]) next.push_back(c - '!');
  for (const Token token : words(30, 4)) next.push_back(token);
  scheduler_->submit(spec(2, next, 5));
  run_all();
  EXPECT_EQ(sink_.done[2].cached_tokens, 219);
  EXPECT_EQ(sink_.text[2], expected_text(next, 5));
}

TEST_F(SchedulerTest, AFullyCachedPromptComputesOneToken) {
  make(1);
  scheduler_->submit(spec(1, words(500, 3), 1));
  run_all();
  scheduler_->submit(spec(2, words(500, 3), 1));
  run_all();
  EXPECT_EQ(sink_.done[2].cached_tokens, 499);
  EXPECT_EQ(sink_.text[2], sink_.text[1]);
}

TEST_F(SchedulerTest, ANewConversationLeavesAnotherOnesSlotAlone) {
  make(2);
  std::vector<Token> system = words(100, 1);
  std::vector<Token> first = system, second = system;
  for (const Token token : words(200, 2)) first.push_back(token);
  for (const Token token : words(200, 3)) second.push_back(token);
  scheduler_->submit(spec(1, first, 5));
  run_all();
  scheduler_->submit(spec(2, second, 5));
  run_all();
  EXPECT_EQ(sink_.done[2].cached_tokens, 0) << "an empty slot is taken although the other one shares a head";
  scheduler_->submit(spec(3, first, 5));
  run_all();
  EXPECT_GE(sink_.done[3].cached_tokens, 299);
}

TEST_F(SchedulerTest, TakesTheLeastRecentlyUsedSlotAndKeepsWhatItShares) {
  make(2);
  std::vector<Token> system = words(100, 1);
  const auto prompt = [&](int seed) {
    std::vector<Token> out = system;
    for (const Token token : words(200, seed)) out.push_back(token);
    return out;
  };
  for (const int seed : {2, 3}) {
    scheduler_->submit(spec(static_cast<RunId>(seed), prompt(seed), 5));
    run_all();
  }
  scheduler_->submit(spec(4, prompt(4), 5));
  run_all();
  EXPECT_EQ(sink_.done[4].cached_tokens, 100);
  EXPECT_EQ(sink_.text[4], expected_text(prompt(4), 5));
  scheduler_->submit(spec(5, prompt(3), 5));
  run_all();
  EXPECT_GE(sink_.done[5].cached_tokens, 299) << "the more recent conversation was kept";
}

TEST_F(SchedulerTest, RecurrentMemoryIsReusedOnlyAtItsEnd) {
  make(1, 4096, {.recurrent = true});
  decoder_->uncuttable = true;
  std::vector<Token> prompt = words(100, 1);
  scheduler_->submit(spec(1, prompt, 5));
  run_all();
  std::vector<Token> longer = prompt;
  for (const char c : sink_.text[1].substr(0, 4)) longer.push_back(c - '!');
  std::vector<Token> other = prompt;
  other.resize(80);
  other.push_back(7);
  longer.push_back(9);
  scheduler_->submit(spec(2, longer, 5));
  run_all();
  EXPECT_EQ(sink_.done[2].cached_tokens, 104);
  scheduler_->submit(spec(3, other, 5));
  run_all();
  EXPECT_EQ(sink_.done[3].cached_tokens, 0);
  EXPECT_EQ(sink_.text[3], expected_text(other, 5));
}

TEST_F(SchedulerTest, SlidingWindowIsReusedOnlyWhereTheWindowIsStillThere) {
  make(1, 4096, {.sliding_window = 50});
  scheduler_->submit(spec(1, words(300, 1), 5));
  run_all();
  std::vector<Token> other = words(300, 1);
  other.resize(200);
  for (const Token token : words(20, 9)) other.push_back(token);
  decoder_->window_start = 250;
  scheduler_->submit(spec(2, other, 5));
  run_all();
  EXPECT_EQ(sink_.done[2].cached_tokens, 0);
  EXPECT_EQ(sink_.text[2], expected_text(other, 5));
}

TEST_F(SchedulerTest, LiveStreamsAdvanceBetweenTheChunksOfALongPrompt) {
  make(2);
  scheduler_->submit(spec(1, words(20, 1), 200));
  scheduler_->step();
  scheduler_->submit(spec(2, words(2000, 2), 5));
  const std::size_t before = sink_.text[1].size();
  int steps = 0;
  while (!sink_.text.contains(2)) {
    scheduler_->step();
    ++steps;
  }
  EXPECT_GT(steps, 5);
  EXPECT_GE(sink_.text[1].size() - before, static_cast<std::size_t>(steps) - 1);
  run_all();
  EXPECT_EQ(sink_.text[2], expected_text(words(2000, 2), 5));
}

TEST_F(SchedulerTest, ReportsThePlaceInTheQueue) {
  make(1);
  for (RunId id = 1; id <= 3; ++id) scheduler_->submit(spec(id, words(50, static_cast<int>(id)), 5));
  EXPECT_EQ(sink_.queued[2], 0);
  EXPECT_EQ(sink_.queued[3], 1);
  EXPECT_EQ(scheduler_->statistics().queued, 2);
}

TEST_F(SchedulerTest, InteractiveRequestsGoBeforeBackgroundOnes) {
  make(1);
  scheduler_->submit(spec(1, words(50, 1), 5));
  RunSpec background = spec(2, words(50, 2), 5);
  background.lane = prompt::Lane::background;
  scheduler_->submit(std::move(background));
  scheduler_->submit(spec(3, words(50, 3), 5));
  EXPECT_EQ(sink_.queued[3], 0);
  EXPECT_EQ(sink_.queued[2], 1);
}

TEST_F(SchedulerTest, AStarvingBackgroundRequestGoesFirst) {
  make(1);
  scheduler_->submit(spec(1, words(50, 1), 5));
  RunSpec background = spec(2, words(50, 2), 5);
  background.lane = prompt::Lane::background;
  scheduler_->submit(std::move(background));
  clock_.advance(Millis(61'000));
  scheduler_->submit(spec(3, words(50, 3), 5));
  EXPECT_EQ(sink_.queued[2], 0);
}

TEST_F(SchedulerTest, ABatchRequestNeverStarves) {
  make(1);
  scheduler_->submit(spec(1, words(50, 1), 5));
  RunSpec batch = spec(2, words(50, 2), 5);
  batch.lane = prompt::Lane::batch;
  scheduler_->submit(std::move(batch));
  clock_.advance(Millis(61'000));
  scheduler_->submit(spec(3, words(50, 3), 5));
  EXPECT_EQ(sink_.queued[3], 0);
  EXPECT_EQ(sink_.queued[2], 1);
}

TEST_F(SchedulerTest, CancelFreesTheSlotAndKeepsItsCells) {
  make(1);
  scheduler_->submit(spec(1, words(100, 1), 1000));
  for (int i = 0; i < 10; ++i) scheduler_->step();
  scheduler_->cancel(1);
  EXPECT_EQ(sink_.failed[1], RunError::cancelled);
  EXPECT_FALSE(scheduler_->runnable());
  scheduler_->submit(spec(2, words(100, 1), 5));
  run_all();
  EXPECT_GE(sink_.done[2].cached_tokens, 99);
}

TEST_F(SchedulerTest, CancelOfAnUnknownRunIsNothing) {
  make(1);
  scheduler_->cancel(77);
  EXPECT_TRUE(sink_.failed.empty());
}

TEST_F(SchedulerTest, APausedRunKeepsItsPlaceAndItsText) {
  make(2);
  scheduler_->submit(spec(1, words(30, 1), 20));
  scheduler_->step();
  scheduler_->pause(1, true);
  EXPECT_FALSE(scheduler_->runnable());
  scheduler_->submit(spec(2, words(30, 2), 20));
  run_all();
  scheduler_->pause(1, false);
  run_all();
  EXPECT_EQ(sink_.text[1], expected_text(words(30, 1), 20));
}

TEST_F(SchedulerTest, AFullWindowEndsTheRunWithLength) {
  make(1, 64);
  scheduler_->submit(spec(1, words(60, 1), std::nullopt));
  run_all();
  EXPECT_TRUE(sink_.done[1].length);
  EXPECT_EQ(sink_.text[1], expected_text(words(60, 1), 5))
      << "four cells are left, the fifth token is never fed";
}

TEST_F(SchedulerTest, B07StopStringEndsBeforeTheMatchAndIsNoLimit) {
  make(1);
  const std::string all = expected_text(words(40, 1), 12);
  RunSpec run = spec(1, words(40, 1), 50);
  run.stop = {all.substr(6, 3)};
  scheduler_->submit(std::move(run));
  run_all();
  EXPECT_EQ(sink_.text[1], all.substr(0, all.find(all.substr(6, 3))));
  EXPECT_FALSE(sink_.done[1].length);
}

TEST_F(SchedulerTest, AnAbortedPromptGoesOnWhereItStopped) {
  make(1);
  decoder_->abort_after = 300;
  scheduler_->submit(spec(1, words(1000, 1), 5));
  run_all();
  EXPECT_EQ(sink_.text[1], expected_text(words(1000, 1), 5));
}

TEST_F(SchedulerTest, OneRefusedRunDoesNotEndTheOthers) {
  make(3);
  for (RunId id = 1; id <= 3; ++id) scheduler_->submit(spec(id, words(30, static_cast<int>(id)), 20));
  for (int i = 0; i < 6; ++i) scheduler_->step();
  decoder_->refused_slots = {1};
  scheduler_->step();
  EXPECT_EQ(sink_.failed.size(), 1u);
  decoder_->refused_slots.clear();
  run_all();
  EXPECT_EQ(sink_.done.size(), 2u);
  for (const auto& [id, result] : sink_.done) {
    EXPECT_EQ(sink_.text[id], expected_text(words(30, static_cast<int>(id)), 20));
  }
}

TEST_F(SchedulerTest, ABackendThatFailsWhileTheOffenderIsSoughtEndsEveryRun) {
  make(3);
  for (RunId id = 1; id <= 3; ++id) scheduler_->submit(spec(id, words(30, static_cast<int>(id)), 20));
  for (int i = 0; i < 6; ++i) scheduler_->step();
  decoder_->refused_slots = {0, 1, 2};
  decoder_->code_after_refusal = llama::DecodeCode::failed;
  scheduler_->step();
  EXPECT_TRUE(scheduler_->poisoned());
  EXPECT_EQ(sink_.failed.size(), 3u);
}

TEST_F(SchedulerTest, AnAbortedDecodeCallIsRepeated) {
  make(1);
  scheduler_->submit(spec(1, words(30, 1), 20));
  for (int i = 0; i < 5; ++i) scheduler_->step();
  decoder_->abort_after = static_cast<std::size_t>(decoder_->position_max(0)) + 2;
  run_all();
  EXPECT_EQ(sink_.text[1], expected_text(words(30, 1), 20));
}

TEST_F(SchedulerTest, ARunWithoutAnyPossibleTokenFailsInsteadOfStopping) {
  make(1);
  decoder_->nonsense = true;
  scheduler_->submit(spec(1, words(30, 1), 20));
  run_all();
  EXPECT_EQ(sink_.failed[1], RunError::internal);
  EXPECT_TRUE(sink_.done.empty());
}

TEST_F(SchedulerTest, AFailedBackendEndsEveryRun) {
  make(2);
  for (RunId id = 1; id <= 3; ++id) scheduler_->submit(spec(id, words(30, static_cast<int>(id)), 20));
  scheduler_->step();
  decoder_->next_code = llama::DecodeCode::failed;
  scheduler_->step();
  EXPECT_TRUE(scheduler_->poisoned());
  EXPECT_EQ(sink_.failed.size(), 3u);
  EXPECT_FALSE(scheduler_->runnable());
}

TEST_F(SchedulerTest, RandomCancelsNeverLeakARunOrACell) {
  make(3, 512);
  std::mt19937 random(5);
  RunId id = 0;
  for (int round = 0; round < 3000; ++round) {
    if (random() % 3 == 0) {
      scheduler_->submit(spec(++id,
                              words(1 + static_cast<int>(random() % 400), static_cast<int>(random() % 6)),
                              1 + static_cast<std::int64_t>(random() % 40)));
    }
    if (id > 0 && random() % 4 == 0) scheduler_->cancel(1 + random() % id);
    if (scheduler_->runnable()) scheduler_->step();
  }
  run_all();
  EXPECT_EQ(scheduler_->statistics().sequences, 0);
  EXPECT_EQ(sink_.done.size() + sink_.failed.size(), id);
  std::int64_t cells = 0;
  for (int slot = 0; slot < 3; ++slot) cells += decoder_->position_max(slot) + 1;
  EXPECT_EQ(scheduler_->statistics().cells_used, cells);
}

// Allows what a script says, forces what it says, and checks that it is asked in order.
class ScriptedSteering final : public Steering {
 public:
  void prepare() override { ++prepared; }
  Result<std::span<const std::uint32_t>> mask() override {
    if (fail_mask) return fail(ErrorKind::internal, "constraint-failed", "the mask failed");
    if (allowed.empty()) return std::span<const std::uint32_t>{};
    bits_.assign((kVocab + 31) / 32, 0);
    if (banned_) return std::span<const std::uint32_t>(bits_);
    for (const Token token : allowed) bits_[static_cast<std::size_t>(token) / 32] |= 1U << (token % 32);
    return std::span<const std::uint32_t>(bits_);
  }
  Result<bool> accept(Token token) override {
    if (refused.contains(token)) {
      allowed.erase(token);
      if (allowed.empty()) allowed.insert(kVocab - 1), banned_ = true;
      return false;
    }
    accepted.push_back(token);
    return true;
  }
  std::vector<Token> forced() override { return std::exchange(force, {}); }
  bool complete() const override { return end_after > 0 && accepted.size() >= end_after; }
  SteeringReport report() const override { return {.reasoning_tokens = 7}; }

  int prepared = 0;
  bool fail_mask = false;
  std::set<Token> allowed, refused;
  std::vector<Token> accepted, force;
  std::size_t end_after = 0;

 private:
  std::vector<std::uint32_t> bits_;
  bool banned_ = false;  // the last allowed token was refused
};

class SteeringTest : public SchedulerTest {
 protected:
  ScriptedSteering& submit(RunId id, int seed, std::int64_t max_tokens) {
    auto run = spec(id, words(20, seed), max_tokens);
    auto steering = std::make_unique<ScriptedSteering>();
    ScriptedSteering& out = *steering;
    run.steering = std::move(steering);
    scheduler_->submit(std::move(run));
    return out;
  }
};

TEST_F(SteeringTest, OnlyAllowedTokensAreSampled) {
  make(1);
  submit(1, 1, 6).allowed = {9};
  run_all();
  EXPECT_EQ(sink_.text[1], letter(9) + letter(9) + letter(9) + letter(9) + letter(9) + letter(9));
  EXPECT_TRUE(sink_.done[1].length);
}

TEST_F(SteeringTest, ATokenTakenBackIsSampledAgain) {
  make(1);
  auto& steering = submit(1, 1, 2);
  steering.allowed = {9, 11};
  steering.refused = {9};
  run_all();
  EXPECT_EQ(sink_.text[1], letter(11) + letter(11));
}

TEST_F(SteeringTest, ForcedTokensFollowWithoutSamplingAndCount) {
  make(1);
  auto& steering = submit(1, 1, 5);
  steering.allowed = {9};
  steering.force = {20, 21, 22};
  run_all();
  EXPECT_EQ(sink_.text[1], letter(9) + letter(20) + letter(21) + letter(22) + letter(9));
  EXPECT_EQ(sink_.done[1].completion_tokens, 5);
}

TEST_F(SteeringTest, ForcedTokensAreFedInOneCall) {
  make(1);
  auto& steering = submit(1, 1, 6);
  steering.force = {20, 21, 22};
  run_all();
  EXPECT_THAT(decoder_->row_counts, ElementsAre(20, 4, 1));
}

TEST_F(SteeringTest, ForcedTextLongerThanABatchIsFedInPieces) {
  make(1, 4096, Options{.batch_tokens = 32});
  auto& steering = submit(1, 1, 80);
  steering.force = std::vector<Token>(70, 20);
  run_all();
  EXPECT_EQ(sink_.done[1].completion_tokens, 80);
  for (const int rows : decoder_->row_counts) EXPECT_LE(rows, 32);
}

TEST_F(SteeringTest, AStopStringInsideForcedTextEndsTheRun) {
  make(1);
  auto run = spec(1, words(20, 1), 20);
  auto steering = std::make_unique<ScriptedSteering>();
  steering->allowed = {9};
  steering->force = {20, 21, 22};
  run.steering = std::move(steering);
  run.stop = {letter(21)};
  scheduler_->submit(std::move(run));
  run_all();
  EXPECT_EQ(sink_.text[1], letter(9) + letter(20));
  EXPECT_FALSE(sink_.done[1].length);
}

TEST_F(SteeringTest, ACompleteConstraintEndsTheRun) {
  make(1);
  auto& steering = submit(1, 1, 50);
  steering.allowed = {9};
  steering.end_after = 3;
  run_all();
  EXPECT_EQ(sink_.done[1].completion_tokens, 3);
  EXPECT_FALSE(sink_.done[1].length);
  EXPECT_EQ(sink_.done[1].steering.reasoning_tokens, 7);
}

TEST_F(SteeringTest, AFailedConstraintFailsTheRunAndNoOther) {
  make(2);
  submit(1, 1, 50).fail_mask = true;
  scheduler_->submit(spec(2, words(20, 2), 10));
  run_all();
  EXPECT_EQ(sink_.failed[1], RunError::constraint);
  EXPECT_EQ(sink_.text[2], expected_text(words(20, 2), 10));
}

TEST_F(SteeringTest, AConstraintNeverReachesTheRunBesideIt) {
  make(2);
  submit(1, 1, 12).allowed = {9};
  scheduler_->submit(spec(2, words(20, 2), 30));
  run_all();
  EXPECT_EQ(sink_.text[2], expected_text(words(20, 2), 30));
}

TEST_F(SteeringTest, B25AConstraintStaysWithItsRunWhenOthersEndAndJoin) {
  make(2);
  submit(1, 1, 40).allowed = {9};
  scheduler_->submit(spec(2, words(20, 2), 5));  // ends first
  scheduler_->submit(spec(3, words(20, 3), 8));  // takes its place
  run_all();
  std::string steered;
  for (int i = 0; i < 40; ++i) steered += letter(9);
  EXPECT_EQ(sink_.text[1], steered);
  EXPECT_EQ(sink_.text[2], expected_text(words(20, 2), 5));
  EXPECT_EQ(sink_.text[3], expected_text(words(20, 3), 8));
}

TEST_F(SteeringTest, AMaskThatLeavesNothingFailsTheRun) {
  make(1);
  auto& steering = submit(1, 1, 50);
  steering.allowed = {9};
  steering.refused = {9};
  run_all();
  EXPECT_EQ(sink_.failed[1], RunError::constraint);
}

TEST_F(SteeringTest, TheNextMaskIsPreparedWhileTheBatchRuns) {
  make(1);
  auto& steering = submit(1, 1, 50);
  EXPECT_EQ(steering.prepared, 1);
  scheduler_->step();
  EXPECT_EQ(steering.prepared, 2);
}

}  // namespace
}  // namespace gezel::scheduler
