// llama/llama.h
//
// libllama behind RAII: the only place that calls its C API. One Model is one GGUF; one Context holds its KV cache, one
// stream per slot (layout S of spec 40 section 11.0). All calls of a Context come from one thread.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"

struct llama_model;
struct llama_vocab;
struct llama_context;

namespace gezel::llama {

using Token = std::int32_t;

// Starts the library once for the process; its log goes to ours. Safe to call again.
void initialize();
// Version and build of the linked library.
std::string build_info();
// Names of the devices and the CPU features in use, for people ("CPU: AVX512 AMX_INT8 ...").
std::vector<std::string> backends();

class Vocab {
 public:
  explicit Vocab(const llama_vocab* vocab);
  int size() const { return size_; }
  Token bos() const;  // -1: none
  Token eos() const;
  bool adds_bos() const;
  bool is_end_of_generation(Token token) const { return eog_[static_cast<std::size_t>(token)]; }
  bool is_control(Token token) const;
  const std::vector<Token>& end_of_generation() const { return eog_list_; }
  // Bytes of a token as they appear in output; control tokens give "" unless `special`.
  // Not always valid UTF-8 on its own.
  std::string_view piece(Token token, bool special = false) const;
  // The token whose text is exactly `text` and that is a control or user-defined token, or -1.
  Token find_special(std::string_view text) const;
  // `parse_special`: control tokens written in the text become tokens. `add_special`: add what the vocabulary asks for
  // (beginning-of-text) — but not a second beginning-of-text when the text begins with it.
  std::vector<Token> tokenize(std::string_view text, bool add_special, bool parse_special) const;

 private:
  const llama_vocab* vocab_;
  int size_ = 0;
  std::vector<bool> eog_;
  std::vector<Token> eog_list_;
  std::vector<std::string> pieces_;  // of every token, control tokens included; filled at load
  std::vector<bool> control_;
};

struct ModelOptions {
  std::string path;
  bool use_mmap = true;
  bool vocab_only = false;
  std::vector<std::string> excluded_buffer_types;  // of the self-test; "CPU" extra buffer types such as "AMX", "CPU_REPACK"
  std::function<bool(float)> progress;             // 0..1; false cancels
};

class Model {
 public:
  // Errors: code `model-invalid` with what the library said about the file, `engine-out-of-memory`.
  static Result<std::unique_ptr<Model>> load(const ModelOptions& options);
  ~Model();
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  llama_model* get() const { return model_; }
  const Vocab& vocab() const { return *vocab_; }
  std::string chat_template() const;                      // "" when the file has none
  std::optional<std::string> metadata(const char* key) const;
  std::int64_t trained_context() const;
  int sliding_window() const;  // tokens, 0: none
  bool recurrent() const;      // wholly or partly: memory cannot be cut at any token
  bool has_decoder() const;
  int head_dimension() const;  // of K
  Bytes size() const;          // weights

 private:
  Model() = default;
  llama_model* model_ = nullptr;
  std::unique_ptr<Vocab> vocab_;
};

struct ContextOptions {
  int slots = 1;
  std::int64_t context_per_slot = 2048;
  int threads = 1;
  bool flash_attention = false;
  int batch_tokens = 2048;   // n_batch
  int micro_batch_tokens = 512;
};

// One row of a batch: a token of a slot at a position; `logits` asks for its output row.
struct Row {
  Token token = 0;
  std::int32_t position = 0;
  int slot = 0;
  bool logits = false;
};

// What llama_decode answered (spec 40 section 11.13).
enum class DecodeCode { ok, no_space, aborted, bad_batch, failed };

class Context {
 public:
  // Errors: `engine-out-of-memory`, `engine-internal`.
  static Result<std::unique_ptr<Context>> create(const Model& model, const ContextOptions& options);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  DecodeCode decode(std::span<const Row> rows);
  // Logits of the row at `index` of the last decode (index in `rows`; it must have asked for them).
  std::span<const float> logits(int index) const;

  // Removes positions [from, to) of a slot; to < 0: to the end. False: the memory cannot be cut there.
  bool remove(int slot, std::int32_t from, std::int32_t to);
  std::int32_t position_min(int slot) const;  // -1: empty
  std::int32_t position_max(int slot) const;  // -1: empty
  // While set and true, a running CPU decode stops early (DecodeCode::aborted). Read from the decode threads.
  void set_abort_flag(const std::atomic<bool>* flag);

  int slots() const;
  std::int64_t context_per_slot() const;
  std::uint64_t micro_batches() const;  // estimated calls of the compute graph so far; 0 when unknown
  Bytes kv_bytes() const;
  Bytes compute_bytes() const;

 private:
  Context() = default;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gezel::llama
