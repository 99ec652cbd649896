// The prefix cache with the real engine, real files and real threads: models of random weights in F32, one of
// each kind of memory. Whatever happens to the tree, every request gets the text of a cold run, by the rule
// of spec 40 section 11.16.2 (i): the first difference may only be where the cold run's best two tokens were
// closer than 0.001.
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <future>
#include <map>
#include <random>

#include "base/test_folder.h"
#include "llama/test_support.h"
#include "llama/tiny_model.h"
#include "scheduler/scheduler.h"
#include "worker/cache_start.h"
#include "worker/context_decoder.h"
#include "worker/load_probe.h"

namespace gezel::worker {
namespace {

using llama::testing::TinyKind;
using scheduler::RunId;
using scheduler::Token;
using Tokens = std::vector<Token>;

constexpr double kEpsilon = 1e-3;
constexpr std::int64_t kContext = 1024;
constexpr Millis kPatience{20'000};  // for a thread of this process

Tokens operator+(Tokens a, const Tokens& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}
// Ordinary tokens, the same for the same seed.
Tokens words(int count, unsigned seed) {
  std::mt19937 random(seed);
  Tokens out;
  for (int i = 0; i < count; ++i) out.push_back(static_cast<Token>(260 + random() % 60));
  return out;
}
// Two letters each, so that a text is its tokens.
std::string spelled(Token token) {
  return {static_cast<char>('a' + token / 26 % 26), static_cast<char>('a' + token % 26)};
}

std::unique_ptr<llama::Context> make_context(const llama::Model& model, int slots, bool flash) {
  auto made = llama::Context::create(
      model, {.slots = slots, .context_per_slot = kContext, .threads = 1, .flash_attention = flash});
  if (!made) {
    ADD_FAILURE() << made.error().message;
    std::abort();
  }
  return std::move(*made);
}

// What a model writes when nothing is cached.
class ColdRuns {
 public:
  explicit ColdRuns(const llama::Model& model) : context_(make_context(model, 1, false)) {}

  struct Text {
    Tokens tokens;
    std::vector<double> gaps;  // between the best token and the next
  };
  const Text& of(const Tokens& prompt, std::size_t count) {
    Text& text = known_[prompt];
    if (text.tokens.size() < count) text = compute(prompt, count);
    return text;
  }

 private:
  Text compute(const Tokens& prompt, std::size_t count) {
    context_->remove(0, -1, -1);
    Text out;
    Tokens next = prompt;
    std::int32_t position = 0;
    while (out.tokens.size() < count) {
      std::vector<llama::Row> rows;
      for (const Token token : next) rows.push_back({token, position++, 0, false});
      rows.back().logits = true;
      EXPECT_EQ(context_->decode(rows), llama::DecodeCode::ok);
      const auto logits = context_->logits(static_cast<int>(rows.size()) - 1);
      const auto best = std::max_element(logits.begin(), logits.end());
      out.gaps.push_back(kvcache::compare_logits(logits, logits).cold_gap);
      out.tokens.push_back(static_cast<Token>(best - logits.begin()));
      next = {out.tokens.back()};
    }
    return out;
  }

  std::unique_ptr<llama::Context> context_;
  std::map<Tokens, Text> known_;
};

struct Answers final : scheduler::Sink {
  void on_emissions(std::vector<scheduler::Emission> emissions) override {
    for (const auto& emission : emissions) text[emission.id] += emission.text;
  }
  void on_prefill(RunId, std::int64_t, std::int64_t) override {}
  void on_queued(RunId, std::int64_t) override {}
  void on_done(const scheduler::RunResult& result) override { done[result.id] = result; }
  void on_failed(RunId id, scheduler::RunError error, std::string_view) override { failed[id] = error; }

  std::map<RunId, std::string> text;
  std::map<RunId, scheduler::RunResult> done;
  std::map<RunId, scheduler::RunError> failed;
};

// Set when the disk has done something.
class Bell {
 public:
  void ring() {
    {
      const std::lock_guard lock(mutex_);
      rung_ = true;
    }
    heard_.notify_one();
  }
  bool wait(MonotonicTime until) {
    std::unique_lock lock(mutex_);
    heard_.wait_until(lock, until, [this] { return rung_; });
    return std::exchange(rung_, false);
  }

 private:
  std::mutex mutex_;
  std::condition_variable heard_;
  bool rung_ = false;
};

class CacheEngine {
 public:
  explicit CacheEngine(TinyKind kind) {
    const auto path = folder_.path() / "tiny.gguf";
    llama::testing::write_tiny_model(path, kind);
    model_ = llama::testing::load_or_die(path);
    cold_ = std::make_unique<ColdRuns>(*model_);
    auto view = std::make_shared<sampling::VocabView>();
    view->size = model_->vocab().size();
    view->piece = spelled;
    view_ = view;
    for (Token token = 0; token < model_->vocab().size(); ++token) pieces_.push_back(spelled(token));
    std::filesystem::create_directory(cache_folder());
  }

  std::filesystem::path cache_folder() const { return folder_.path() / "kv"; }

  void start() {
    context_ = make_context(*model_, slots, flash);
    decoder_ = std::make_unique<ContextDecoder>(*context_);
    protocol::Load load;
    load.cache_folder = cache_folder().string();
    load.cache.host_bytes = memory;
    load.cache.identity = "tiny";
    cache_ = start_cache(load, *model_, *context_, flash, *decoder_, clock_, [this] { bell_.ring(); });
    if (free_bytes) replace_disk();
    scheduler::Options options;
    options.slots = slots;
    options.context_per_slot = kContext;
    options.sliding_window = model_->sliding_window();
    options.recurrent = model_->recurrent();
    options.max_outputs = context_->max_outputs();
    scheduler_ = std::make_unique<scheduler::Scheduler>(
        options, *decoder_,
        scheduler::Vocabulary{
            [this](Token token) { return std::string_view(pieces_[static_cast<std::size_t>(token)]); },
            [](Token) { return false; }},
        clock_, answers, cache_.cache.get());
  }
  void restart() {
    scheduler_->freeze(clock_.now() + kPatience);
    stop();
    start();
  }
  void stop() {
    scheduler_.reset();
    cache_.cache.reset();
    cache_.disk.reset();
    decoder_.reset();
    context_.reset();
  }

  RunId ask(const Tokens& prompt, int system, int tokens, std::string session = {}, bool ephemeral = false) {
    sampling::SamplingParams params;
    params.temperature = 0;
    scheduler::RunSpec run{.id = ++last_id_,
                           .prompt = prompt,
                           .max_tokens = tokens,
                           .sampler = sampling::Sampler(params, view_),
                           .stop = {}};
    for (std::size_t i = 1; i <= prompt.size(); ++i) run.token_ends.push_back(i);
    run.spans = {{kvcache::SpanKind::system, 0, static_cast<std::uint64_t>(system)}};
    run.session = std::move(session);
    run.ephemeral = ephemeral;
    asked_[last_id_] = {prompt, static_cast<std::size_t>(tokens)};
    scheduler_->submit(std::move(run));
    return last_id_;
  }
  // Until every run has ended.
  void drain() {
    const MonotonicTime until = clock_.now() + kPatience;
    while (scheduler_->statistics().sequences > 0) {
      if (scheduler_->runnable()) {
        scheduler_->step();
        continue;
      }
      bell_.wait(std::min(until, scheduler_->wake_at().value_or(until)));
      scheduler_->poke();
      ASSERT_LT(clock_.now(), until) << "a run waits for something that does not come";
    }
  }
  // Compares what ended since the last call.
  void compare() {
    for (const auto& [id, result] : answers.done) {
      const auto& [prompt, count] = asked_.at(id);
      const auto& cold = cold_->of(prompt, count);
      const std::string& text = answers.text[id];
      ASSERT_EQ(text.size(), 2 * count) << id;
      for (std::size_t i = 0; i < count; ++i) {
        if (text.substr(2 * i, 2) == spelled(cold.tokens[i])) continue;
        ASSERT_LT(cold.gaps[i], kEpsilon) << "request " << id << " differs at token " << i << " with "
                                          << result.cached_tokens << " cached of " << prompt.size();
        break;  // from here on it is another text
      }
      cached.slot += result.cached.slot;
      cached.host += result.cached.host;
      cached.disk += result.cached.disk;
      cached.coalesced += result.cached.coalesced;
      ++compared;
    }
    for (const auto& [id, error] : answers.failed) ASSERT_EQ(error, scheduler::RunError::cancelled) << id;
    answers = {};
    ASSERT_EQ(cache().tree().check(), "");
  }
  // One request alone: its cached tokens.
  std::int64_t answer(const Tokens& prompt, int system, int tokens = 12) {
    const RunId id = ask(prompt, system, tokens);
    drain();
    const std::int64_t found = answers.done[id].cached_tokens;
    compare();
    return found;
  }

  scheduler::Scheduler& scheduler() { return *scheduler_; }
  scheduler::PrefixCache& cache() { return *cache_.cache; }
  RunId last_id() const { return last_id_; }

  int slots = 3;
  bool flash = false;
  std::function<std::optional<Bytes>(const fs::path&)> free_bytes;  // a disk of the test's own; mode full
  Bytes memory = 3 * kMiB;
  Answers answers;
  scheduler::CachedTiers cached;
  int compared = 0;

 private:
  void replace_disk() {
    const auto probed = probe(*decoder_, kvcache::Mode::full, probe_tokens(model_->vocab()), std::nullopt);
    cache_.cache.reset();
    cache_.disk = std::make_unique<RecordThread>(
        kvcache::StoreOptions{
            .root = {}, .fingerprint = {}, .folder = cache_folder(), .free_bytes = free_bytes},
        *probed.layout, clock_, [this] { bell_.ring(); });
    cache_.cache = std::make_unique<scheduler::PrefixCache>(
        scheduler::CacheOptions{.slots = slots, .host_budget = memory}, *decoder_, cache_.disk.get(), clock_);
    cache_.cache->open(probed.layout, probed.streams);
  }

  const TestFolder folder_;
  const SystemClock clock_;
  Bell bell_;
  std::unique_ptr<llama::Model> model_;
  std::unique_ptr<ColdRuns> cold_;
  std::shared_ptr<const sampling::VocabView> view_;
  std::vector<std::string> pieces_;
  std::unique_ptr<llama::Context> context_;
  std::unique_ptr<ContextDecoder> decoder_;
  StartedCache cache_;
  std::unique_ptr<scheduler::Scheduler> scheduler_;
  std::map<RunId, std::pair<Tokens, std::size_t>> asked_;
  RunId last_id_ = 0;
};

std::string name_of(const testing::TestParamInfo<TinyKind>& info) {
  constexpr const char* kNames[] = {"full", "window", "hybrid", "recurrent"};
  return kNames[static_cast<std::size_t>(info.param)];
}

class CacheEngineTest : public testing::TestWithParam<TinyKind> {};
INSTANTIATE_TEST_SUITE_P(Kinds, CacheEngineTest,
                         testing::Values(TinyKind::full, TinyKind::window, TinyKind::hybrid,
                                         TinyKind::recurrent),
                         name_of);

TEST_P(CacheEngineTest, WarmFromEveryTierIsAsCold) {
  CacheEngine engine(GetParam());
  engine.slots = 1;
  engine.start();
  const Tokens rules = words(300, 1), question = words(80, 2);
  EXPECT_EQ(engine.answer(rules + question, 300), 0);
  EXPECT_GE(engine.answer(rules + words(70, 3), 300), 300) << "the system text, in a slot or in memory";
  engine.answer(words(200, 4), 0);  // takes the slot
  EXPECT_GE(engine.answer(rules + question + words(20, 5), 300), 300);
  EXPECT_GT(engine.cached.host, 0);
  engine.restart();
  EXPECT_GE(engine.answer(rules + words(60, 6), 300), 300);
  EXPECT_GT(engine.cached.disk, 0);
}

TEST_P(CacheEngineTest, AConversationGoesOnWhereItWasAfterARestart) {
  CacheEngine engine(GetParam());
  engine.start();
  Tokens chat = words(300, 1) + words(40, 2);
  for (int turn = 0; turn < 4; ++turn) {
    const RunId id = engine.ask(chat, 300, 16);
    engine.drain();
    Tokens said;
    const std::string text = engine.answers.text[id];
    for (std::size_t i = 0; i + 1 < text.size(); i += 2) {
      for (Token token = 0; token < llama::testing::kTinyVocabulary; ++token) {
        if (spelled(token) == text.substr(i, 2)) said.push_back(token);
      }
    }
    ASSERT_EQ(said.size(), 16U);
    if (turn > 0) EXPECT_GE(engine.answers.done[id].cached_tokens, 300) << turn;
    engine.compare();
    chat = chat + said + words(30, static_cast<unsigned>(10 + turn));
    if (turn == 1) engine.restart();
  }
}

TEST(CacheEngineDisk, AWriteThatHangsHoldsNobodyUp) {
  std::promise<void> began, released;
  std::atomic<bool> first{true};
  CacheEngine engine(TinyKind::full);
  engine.free_bytes = [&, gone = released.get_future().share()](const fs::path&) -> std::optional<Bytes> {
    if (first.exchange(false)) began.set_value();
    gone.wait();
    return 100 * kGiB;
  };
  engine.start();
  const Tokens rules = words(600, 1);
  EXPECT_EQ(engine.answer(rules + words(40, 2), 600), 0);
  began.get_future().wait();
  EXPECT_EQ(engine.answer(rules + words(40, 3), 600), 600);
  EXPECT_EQ(engine.answer(words(300, 4), 0), 0);
  engine.scheduler().freeze({});  // whose time is over: nothing is waited for
  EXPECT_TRUE(engine.cache().writing());
  EXPECT_EQ(engine.cache().statistics().disk.written, 0U);
  released.set_value();
  engine.stop();
}

// Requests that come, are cancelled, share heads, part, are evicted and dropped, and restarts in between.
TEST_P(CacheEngineTest, RandomInterleavingsGiveTheColdText) {
  constexpr int kInterleavings = 250;  // of each kind: 1,000
  CacheEngine engine(GetParam());
  engine.start();
  std::mt19937 random(3 + static_cast<unsigned>(GetParam()));
  const auto dice = [&](unsigned below) { return static_cast<int>(random() % below); };
  int interleavings = 0;
  for (; interleavings < kInterleavings && !testing::Test::HasFatalFailure(); ++interleavings) {
    const RunId first = engine.last_id() + 1;
    for (int operation = 0; operation < 10; ++operation) {
      const int what = dice(20);
      if (what < 6) {
        const int system = 40 + 60 * dice(4);
        const Tokens prompt = words(system, static_cast<unsigned>(system)) +
                              words(dice(4) * 45, static_cast<unsigned>(100 + dice(5))) +
                              words(1 + dice(40), static_cast<unsigned>(200 + dice(12)));
        engine.ask(prompt, system, 1 + dice(12), "s" + std::to_string(dice(5)), dice(8) == 0);
      } else if (what == 6 && engine.last_id() >= first) {
        engine.scheduler().cancel(first + random() % (engine.last_id() - first + 1));
      } else if (what == 7) {
        engine.scheduler().drop_session("s" + std::to_string(dice(5)));
      } else if (what == 8) {
        std::vector<kvcache::NodeId> nodes;
        engine.cache().tree().each([&](kvcache::NodeId id, const kvcache::Node&) { nodes.push_back(id); });
        std::ranges::sort(nodes);
        if (!nodes.empty()) engine.cache().drop(nodes[random() % nodes.size()]);
      } else if (what == 9) {
        engine.cache().save_everything();
      } else if (engine.scheduler().runnable()) {
        engine.scheduler().step();
      } else {
        engine.scheduler().poke();
      }
    }
    engine.drain();
    engine.compare();
    if (dice(12) == 0) engine.restart();
  }
  EXPECT_EQ(interleavings, kInterleavings);
  EXPECT_GT(engine.compared, 2 * kInterleavings);
  EXPECT_GT(engine.cached.slot + engine.cached.host, 0);
  EXPECT_GT(engine.cached.disk, 0);
}

}  // namespace
}  // namespace gezel::worker
