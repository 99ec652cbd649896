// llama/llama.h
//
// libllama behind RAII: the only place that calls its C API. One Model is one GGUF; one Context holds its KV
// cache, one stream per slot (layout S of spec 40 section 11.0). All calls of a Context come from one thread.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
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

// Far above any context window; the library counts bytes and tokens in 32 bits.
inline constexpr std::size_t kMaxTokenizeBytes = 256 * kMiB;

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
  bool adds_eos() const;
  int type() const;  // of its tokenizer, as the library numbers them
  bool is_end_of_generation(Token token) const {
    return token >= 0 && token < size_ && eog_[static_cast<std::size_t>(token)];
  }
  bool is_control(Token token) const;
  // Text that training always wrote as this one token ("user-defined"); part of the output.
  bool is_defined(Token token) const;
  const std::vector<Token>& end_of_generation() const { return eog_list_; }
  // Bytes of a token as they appear in output; control tokens give "" unless `special`.
  // Not always valid UTF-8 on its own.
  std::string_view piece(Token token, bool special = false) const;
  // The token whose text is exactly `text` and that is a control or user-defined token, or -1.
  Token find_special(std::string_view text) const;
  // `parse_special`: control tokens written in the text become tokens. `add_special`: add what the vocabulary
  // asks for (beginning-of-text) — but not a second beginning-of-text when the text begins with it. An
  // end-of-text is never added. Any bytes are accepted: where the vocabulary insists on UTF-8, ill-formed
  // parts become U+FFFD. Text of more than kMaxTokenizeBytes gives no tokens. Never throws; may be called
  // from any thread.
  std::vector<Token> tokenize(std::string_view text, bool add_special, bool parse_special) const;

 private:
  const llama_vocab* vocab_;
  int size_ = 0;
  std::vector<bool> eog_;
  std::vector<Token> eog_list_;
  std::vector<std::string> pieces_;  // of every token, control tokens included; filled at load
  std::vector<bool> control_;
  std::vector<bool> defined_;
  std::vector<bool> hidden_;  // control and unknown tokens: no output text
  std::map<std::string, Token, std::less<>> special_;
};

struct ModelOptions {
  std::string path;
  // Off by default: mapped weights that are also copied into another layout stay resident twice, and pages
  // that the kernel may take back at any time cannot be promised to anybody.
  bool use_mmap = false;
  bool vocab_only = false;
  // Nothing is read beyond the metadata and nothing is allocated; only Context::memory() means something
  // then.
  bool dry_run = false;
  // Of the self-test: names of weight layouts not to be used ("AMX", "CPU_REPACK"), or "CPU:<type>" when even
  // the plain layout computes a weight type wrong: a model with such tensors is refused ("CPU", "CPU:*":
  // every model is).
  std::vector<std::string> excluded_buffer_types;
  std::function<bool(float)> progress;  // 0..1; false cancels
};

class Model {
 public:
  // Errors: `model-invalid` with what the library said about the file, `model-unreadable` (absent, no
  // permission, a failing disk: nothing is known about the file), `engine-out-of-memory`, `engine-unusable`
  // (the self-test excluded what the model needs), `cancelled`. Messages name the file without its folder.
  // One load at a time.
  static Result<std::unique_ptr<Model>> load(const ModelOptions& options);
  ~Model();
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  llama_model* get() const { return model_; }
  const Vocab& vocab() const { return *vocab_; }
  std::string chat_template() const;  // "" when the file has none
  std::optional<std::string> metadata(const char* key) const;
  std::int64_t trained_context() const;
  int sliding_window() const;  // tokens, 0: none
  bool recurrent() const;      // wholly or partly: memory cannot be cut at any token
  bool hybrid() const;         // partly
  bool diffusion() const;
  bool has_decoder() const;
  int head_dimension() const;  // of K
  Bytes size() const;          // weights

 private:
  Model() = default;
  llama_model* model_ = nullptr;
  std::unique_ptr<Vocab> vocab_;
};

// Element types of a KV cache; K and V share one. q8_0 needs flash attention.
enum class CacheType { f16, q8_0 };

struct ContextOptions {
  int slots = 1;
  std::int64_t context_per_slot = 2048;
  int threads = 1;
  bool flash_attention = false;
  CacheType cache_type = CacheType::f16;
  int batch_tokens = 2048;  // n_batch: rows of one decode() at most
  // As fast as larger ones on processors, and buffers for attention without flash attention grow with it.
  int micro_batch_tokens = 128;
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

// What a context and its model occupy, or would occupy after a dry run.
struct MemoryUse {
  Bytes weights = 0;  // in the file's own layout
  Bytes repack = 0;   // in a layout made for this processor, instead of the file's
  Bytes kv = 0;       // KV cache and recurrent states of all slots
  Bytes compute = 0;  // temporaries of one micro-batch and its outputs
};

class Context {
 public:
  // The model must outlive it. Errors: `engine-out-of-memory`, `engine-internal`.
  static Result<std::unique_ptr<Context>> create(const Model& model, const ContextOptions& options);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  // `rows` are validated first: `bad_batch` for none or more than batch_tokens(), more than max_outputs()
  // that ask for logits, a token, slot or position outside its range, and for positions that do not continue
  // their slot. Allocates nothing itself.
  DecodeCode decode(std::span<const Row> rows);
  // Logits of the row at `index` of the last decode (index in `rows`; it must have asked for them, otherwise
  // empty). Valid until the next decode.
  std::span<const float> logits(int index) const;

  // Removes positions [from, to) of a slot; to < 0: to the end. False: the memory cannot be cut there.
  bool remove(int slot, std::int32_t from, std::int32_t to);
  // -1: empty. With a sliding window the oldest position that every layer still holds; a slot can be cut back
  // to r tokens only while max(0, r - window + 1) is not below it.
  std::int32_t position_min(int slot) const;
  std::int32_t position_max(int slot) const;  // -1: empty

  // What a slot holds, as the library writes it (kvcache/image.h reads it). `partial`: only what the rows of
  // tokens do not restore, the cells of a sliding window or the state of recurrent layers. 0: it failed.
  Bytes state_bytes(int slot, bool partial) const;
  Bytes export_state(int slot, bool partial, std::span<std::byte> out) const;
  // Replaces what the slot holds; `partial`: leaves its rows as they are. Returns the bytes read. Whatever it
  // returns, look at the positions: after a failure the slot may hold anything.
  Bytes import_state(int slot, bool partial, std::span<const std::byte> image);
  // While set and true, a running CPU decode stops early (DecodeCode::aborted). Read from the decode threads.
  void set_abort_flag(const std::atomic<bool>* flag);

  // From the next decode on; clamped to what the library can.
  void set_threads(int threads);
  int threads() const;

  int slots() const;
  std::int64_t context_per_slot() const;  // granted: what was asked, padded up to a multiple of 256
  int batch_tokens() const;               // granted: at most slots × context
  int max_outputs() const;                // rows with logits in one decode
  std::uint64_t micro_batches() const;    // estimated calls of the compute graph so far; 0 when unknown
  // As the library reports it; all 0 when the linked library cannot tell.
  MemoryUse memory() const;
  llama_context* get() const;  // for the other files of this module

 private:
  Context() = default;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gezel::llama
