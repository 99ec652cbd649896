// scheduler/test_prefix_cache.h
//
// A scheduler with a prefix cache, for tests: the decoder is a fake, the disk a map.
#pragma once
#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <vector>

#include "scheduler/prefix_cache.h"
#include "scheduler/test_records.h"
#include "scheduler/test_scheduler.h"

namespace gezel::scheduler {

using kvcache::Mode;

inline std::vector<Token> operator+(std::vector<Token> a, const std::vector<Token>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

class PrefixCacheTest : public SchedulerTest {
 protected:
  void make_cache(int slots) override {
    decoder_->mode = mode_;
    decoder_->uncuttable = mode_ == Mode::hybrid || mode_ == Mode::recurrent;
    if (with_disk_ && records_ == nullptr) records_ = std::make_unique<MemoryRecords>(mode_);
    CacheOptions options;
    options.mode = mode_;
    options.slots = slots;
    options.sliding_window = mode_ == Mode::window ? 16 : 0;
    options.host_budget = host_budget_;
    cache_ = std::make_unique<PrefixCache>(options, *decoder_, records_.get(), clock_);
    if (open_) open();
  }
  void open() {
    cache_->open(mode_ == Mode::recurrent ? std::nullopt : std::optional(fake_layout(mode_)),
                 static_cast<std::uint32_t>(slots_));
  }
  void start(int slots, Mode mode = Mode::full) {
    mode_ = mode;
    slots_ = slots;
    Options options;
    options.recurrent = mode == Mode::hybrid || mode == Mode::recurrent;
    options.sliding_window = mode == Mode::window ? 16 : 0;
    options.verify = verify_;
    make(slots, 4096, options);
  }
  // The process ends and begins again; the disk stays.
  void restart() {
    scheduler_->freeze(clock_.now() + Millis(1000));
    scheduler_.reset();
    cache_.reset();
    if (records_) records_->found();
    start(slots_, mode_);
  }
  // A prompt whose first `system` tokens are its system text.
  RunSpec chat(RunId id, const std::vector<Token>& prompt, std::uint32_t system, std::int64_t tokens = 5) {
    RunSpec out = spec(id, prompt, tokens);
    for (std::size_t i = 1; i <= prompt.size(); ++i) out.token_ends.push_back(i);
    if (system > 0) out.spans = {{kvcache::SpanKind::system, 0, system}};
    return out;
  }
  void answer(RunId id, const std::vector<Token>& prompt, std::uint32_t system = 0, std::int64_t tokens = 5) {
    scheduler_->submit(chat(id, prompt, system, tokens));
    for (int i = 0; i < 10; ++i) {  // the disk has answered at once and wakes the scheduler
      run_all();
      scheduler_->poke();
    }
    EXPECT_EQ(sink_.text[id], expected_text(prompt, static_cast<int>(tokens))) << id;
    EXPECT_EQ(cache_->tree().check(), "");
  }
  std::int64_t cached(RunId id) { return sink_.done[id].cached_tokens; }
  std::int64_t computed() {
    std::int64_t sum = 0;
    for (const auto& [id, result] : sink_.done) sum += result.prompt_tokens - result.cached_tokens;
    return sum;
  }

  Mode mode_ = Mode::full;
  int slots_ = 1;
  bool open_ = true, with_disk_ = false, verify_ = false;
  Bytes host_budget_ = 64 * kMiB;
  std::unique_ptr<MemoryRecords> records_;
};

}  // namespace gezel::scheduler
