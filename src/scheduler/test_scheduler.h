// scheduler/test_scheduler.h
//
// For tests: the scheduler against a decoder that keeps real books. It knows which positions each slot holds,
// refuses rows that do not continue them, and answers with logits that make the next token a function of the
// slot's whole content. Wrong reuse, a lost cell or a mixed-up row therefore changes the text. Its images
// have the library's form, with the token in each row.
#pragma once
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <random>
#include <set>

#include "kvcache/image.h"
#include "kvcache/test_image.h"
#include "scheduler/scheduler.h"

namespace gezel::scheduler {

inline constexpr int kVocab = 64;
inline constexpr Token kEnd = 0;

// A row has its position (4) and its token (4).
inline kvcache::ImageLayout fake_layout(kvcache::Mode mode) {
  kvcache::ImageLayout layout;
  layout.rows.keys = {{.type = 1, .row_bytes = 4}};
  if (mode == kvcache::Mode::window) layout.window = layout.rows;
  return layout;
}

class FakeDecoder final : public Decoder {
 public:
  explicit FakeDecoder(int slots, std::int64_t context)
      : cells_(static_cast<std::size_t>(slots)),
        begins_(static_cast<std::size_t>(slots)),
        states_(static_cast<std::size_t>(slots)),
        context_(context) {}

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
      EXPECT_EQ(begins_[static_cast<std::size_t>(rows[i].slot)], 0) << "its head was removed";
      EXPECT_FALSE(states_[static_cast<std::size_t>(rows[i].slot)]) << "its rows go on behind its state";
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
    if (clock != nullptr) clock->advance(Millis(rows_cost_nothing ? 1 : static_cast<int>(rows.size())));
    return llama::DecodeCode::ok;
  }
  std::span<const float> logits(int row) override {
    const auto& out = outputs_[static_cast<std::size_t>(row)];
    EXPECT_FALSE(out.empty()) << "logits were not asked for in that row";
    return out;
  }
  bool remove(int slot, std::int32_t from, std::int32_t to) override {
    auto& cells = cells_[static_cast<std::size_t>(slot)];
    if (from == 0 && to > 0) {
      begins_[static_cast<std::size_t>(slot)] = to;
      return true;
    }
    EXPECT_LT(to, 0);
    auto& state = states_[static_cast<std::size_t>(slot)];
    if (from > 0 && uncuttable && from < static_cast<std::int32_t>(cells.size()) && from != state)
      return false;
    state.reset();
    cells.resize(std::min(cells.size(), static_cast<std::size_t>(std::max(from, 0))));
    if (cells.empty()) begins_[static_cast<std::size_t>(slot)] = 0;
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

  // --- images
  Bytes state_bytes(int slot, bool partial) override {
    return partial ? compose_partial(slot).size() : compose(slot).size();
  }
  Bytes export_state(int slot, bool partial, std::span<std::byte> out) override {
    const Buffer image = partial ? compose_partial(slot) : compose(slot);
    if (refuse_exports || image.size() > out.size()) return 0;
    std::copy(image.begin(), image.end(), out.begin());
    ++exports;
    return image.size();
  }
  Bytes import_state(int slot, bool partial, std::span<const std::byte> image) override {
    if (partial) return import_recurrent(slot, image);
    ++imports;
    auto& cells = cells_[static_cast<std::size_t>(slot)];
    cells.clear();
    begins_[static_cast<std::size_t>(slot)] = 0;
    if (refuse_imports) return 0;
    if (mode == kvcache::Mode::recurrent) {
      cells.resize(image.size() / sizeof(Token));
      std::memcpy(cells.data(), image.data(), image.size());
      return image.size();
    }
    const auto parsed = kvcache::Image::parse(image, kvcache::image_kind(mode));
    EXPECT_TRUE(parsed) << parsed.error().message;
    for (const auto& part : *parsed->cut_parts(0, parsed->tokens())) {
      for (std::uint32_t i = 0; i < part->tokens; ++i) {
        Token token = 0;
        std::memcpy(&token, part->bytes.data() + part->tokens * 4 + i * 4, 4);
        if (spoil_imports && i == 0) token = token == 1 ? 2 : 1;
        EXPECT_EQ(part->position(i), static_cast<std::int32_t>(cells.size()));
        cells.push_back(token);
      }
    }
    if (const auto checkpoint = checkpoint_of(cells))
      EXPECT_EQ(parsed->checkpoint()->bytes, checkpoint->bytes) << "a checkpoint of another sequence";
    return image.size();
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
  bool rows_cost_nothing = false;  // a call takes 1 ms, however many rows it has
  Token (*rule)(const std::vector<Token>& text) = next;
  kvcache::Mode mode = kvcache::Mode::full;  // of its images
  bool refuse_imports = false, refuse_exports = false;
  bool spoil_imports = false;  // they look right and are not
  int imports = 0, exports = 0;

 private:
  // The state of recurrent layers goes back; the rows stay until they are removed.
  Bytes import_recurrent(int slot, std::span<const std::byte> image) {
    if (refuse_imports) return 0;
    const auto& cells = cells_[static_cast<std::size_t>(slot)];
    for (std::size_t count = 0; count <= cells.size(); ++count) {
      const auto checkpoint = checkpoint_of(std::span(cells).first(count));
      if (!checkpoint) break;
      const auto composed = kvcache::compose_checkpoint(fake_layout(mode), target(slot), *checkpoint);
      if (!std::ranges::equal(*composed, image)) continue;
      if (count < cells.size()) states_[static_cast<std::size_t>(slot)] = static_cast<std::int32_t>(count);
      return image.size();
    }
    ADD_FAILURE() << "the state of another sequence";
    return 0;
  }
  std::vector<float> predict(const std::vector<Token>& cells) const {
    std::vector<float> out(kVocab, 0.0F);
    out[static_cast<std::size_t>(rule(cells))] = 10.0F;
    return out;
  }
  static kvcache::Part rows_of(std::span<const Token> cells, std::size_t from) {
    auto rows = std::make_shared<kvcache::Rows>();
    rows->tokens = static_cast<std::uint32_t>(cells.size() - from);
    rows->bytes.resize(rows->tokens * std::size_t{8});
    for (std::size_t i = from; i < cells.size(); ++i) {
      const auto position = static_cast<std::int32_t>(i);
      std::memcpy(rows->bytes.data() + (i - from) * 4, &position, 4);
      std::memcpy(rows->bytes.data() + rows->tokens * std::size_t{4} + (i - from) * 4, &cells[i], 4);
    }
    return rows;
  }
  // What rows do not restore: the last 16 rows, or 32 bytes that depend on all tokens.
  std::optional<kvcache::Checkpoint> checkpoint_of(std::span<const Token> cells) const {
    kvcache::Checkpoint out;
    if (mode == kvcache::Mode::window) {
      const auto rows = rows_of(cells, cells.size() - std::min<std::size_t>(cells.size(), 16));
      out = {.kind = kvcache::Checkpoint::Kind::window, .window_tokens = rows->tokens, .bytes = rows->bytes};
      return out;
    }
    if (mode != kvcache::Mode::hybrid) return std::nullopt;
    std::uint64_t hash = 0xcbf29ce484222325;
    for (const Token token : cells) hash = (hash ^ static_cast<std::uint64_t>(token)) * 0x100000001b3;
    out.kind = kvcache::Checkpoint::Kind::state;
    out.bytes = kvcache::TestImage::recurrent(static_cast<std::int32_t>(cells.size()) - 1, sizeof hash);
    std::memcpy(out.bytes.data() + out.bytes.size() - sizeof hash, &hash, sizeof hash);
    return out;
  }
  kvcache::ImageTarget target(int slot) const {
    return {.streams = static_cast<std::uint32_t>(cells_.size()), .sequence = slot};
  }
  Buffer compose(int slot) const {
    const auto& cells = cells_[static_cast<std::size_t>(slot)];
    Buffer image;
    if (mode == kvcache::Mode::recurrent) {
      image.resize(cells.size() * sizeof(Token));
      std::memcpy(image.data(), cells.data(), image.size());
      return image;
    }
    // The composer wants all from the start; rows that were removed are cut out of what it wrote.
    const auto first = static_cast<std::size_t>(begins_[static_cast<std::size_t>(slot)]);
    if (cells.size() <= first) return image;
    const auto checkpoint = checkpoint_of(cells);
    kvcache::Part part = rows_of(cells, 0);
    if (first > 0) {
      auto shifted = std::make_shared<kvcache::Rows>(*rows_of(cells, first));
      for (std::uint32_t i = 0; i < shifted->tokens; ++i)
        std::memcpy(shifted->bytes.data() + i * std::size_t{4}, &i, 4);
      part = shifted;
    }
    const kvcache::Piece piece{part, 0, part->tokens};
    const auto layout = fake_layout(mode);
    image.resize(
        kvcache::composed_bytes(layout, target(slot), part->tokens, checkpoint ? &*checkpoint : nullptr));
    const auto size = kvcache::compose_image(layout, target(slot), std::span(&piece, 1),
                                             checkpoint ? &*checkpoint : nullptr, image);
    EXPECT_TRUE(size) << size.error().message;
    // Magic, sequence, streams, empty streams before this one, its cells; 12 bytes a cell.
    const std::size_t cell = 16 + 4 * static_cast<std::size_t>(slot);
    for (std::size_t i = 0; first > 0 && i < part->tokens; ++i) {
      const auto position = static_cast<std::int32_t>(first + i);
      std::memcpy(image.data() + cell + i * 12, &position, 4);
    }
    return image;
  }
  Buffer compose_partial(int slot) const {
    const auto checkpoint = checkpoint_of(cells_[static_cast<std::size_t>(slot)]);
    return checkpoint ? *kvcache::compose_checkpoint(fake_layout(mode), target(slot), *checkpoint) : Buffer{};
  }

  std::vector<std::vector<Token>> cells_;
  std::vector<std::int32_t> begins_;  // tokens removed from the front
  std::vector<std::optional<std::int32_t>>
      states_;  // where that of recurrent layers stands, if not at the end
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

inline std::string letter(Token token) {
  return std::string(1, static_cast<char>('!' + token));
}

// What a run must produce, computed without any scheduler.
inline std::string expected_text(std::vector<Token> prompt, int tokens) {
  std::string out;
  for (int i = 0; i < tokens; ++i) {
    const Token token = FakeDecoder::next(prompt);
    if (token == kEnd) break;
    out += letter(token);
    prompt.push_back(token);
  }
  return out;
}

inline std::vector<Token> words(int count, int seed) {
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
    make_cache(slots);
    make_draft_model(slots);
    scheduler_ = std::make_unique<Scheduler>(
        options, *decoder_,
        Vocabulary{[this](Token token) { return std::string_view(pieces_[static_cast<std::size_t>(token)]); },
                   [](Token token) { return token == kEnd; }},
        clock_, sink_, cache_.get(), draft_model_.get());
  }
  // None, unless a test says otherwise.
  virtual void make_cache(int /*slots*/) {}
  virtual void make_draft_model(int /*slots*/) {}
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
  std::unique_ptr<PrefixCache> cache_;
  std::unique_ptr<DraftModel> draft_model_;
  std::unique_ptr<Scheduler> scheduler_;
};

}  // namespace gezel::scheduler
