// capacity/engine_args.h
//
// The arguments of an external llama server (spec 20 section 16): the user's settings before the catalog's
// before the planner's before the engine's own defaults. Always an array, never a shell string.
#pragma once
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"
#include "capacity/draft.h"
#include "capacity/kv_size.h"
#include "capacity/offload.h"

namespace gezel::capacity {

enum class FlashSetting { on, off, automatic };

// What may be set by the user for all models, and by the catalog for one.
struct EngineTuning {
  std::optional<int> n_gpu_layers;  // -1: all; 0 is a real value
  std::optional<bool> cpu_moe;
  std::optional<int> n_cpu_moe, n_cpu_ffn;
  std::optional<FlashSetting> flash;  // a user's `false` means "no opinion", see flash_setting()
  std::optional<int> cache_reuse;     // 0: off
  std::optional<int> threads, batch, ubatch;
  std::optional<std::string> chat_template;  // the catalog's only
};

// A setting that may be a boolean or a word: true is `on`, false no opinion.
std::optional<FlashSetting> flash_setting(const std::variant<bool, std::string>& value);

// The user's own arguments, in their order. `true` gives a bare flag, `false` nothing.
using ExtraValue = std::variant<bool, std::string>;
using ExtraArgs = std::vector<std::pair<std::string, ExtraValue>>;
// One of them names a number of threads.
bool own_threads(const ExtraArgs& extra);

struct EngineArgsInput {
  EngineTuning config, catalog;
  Offload planned;
  KvType kv_type = KvType::f16;
  bool swa_full = false;
  bool dense_ffn = true;  // the model has dense feed-forward tensors
  DraftChoice draft;
  std::string reasoning_format;  // GEZEL_LLAMA_REASONING_FORMAT
  bool reasoning_preserve = false;
  bool build_lists_preserve = false;  // newer builds preserve by default and must be told not to
  ExtraArgs extra;
  // For threads.
  bool gpu_backend = false;
  Bytes resident = 0, kv = 0, fast_budget = 0;
  std::optional<int> available_cpus, container_limit;
};

// Everything but what names files, addresses and sizes. The user's own arguments come last, so that they win.
std::vector<std::string> tuning_arguments(const EngineArgsInput& input);

// Every layer and all experts run on a GPU.
bool gpu_resident(const EngineArgsInput& input);

// What to tell the user about settings that were ignored.
std::vector<Note> tuning_notes(const EngineArgsInput& input);

struct ServerArgsInput {
  std::string model;  // the first shard
  int port = 0;
  int slots = 1;
  Tokens context = 0;          // per slot
  std::string slot_save_path;  // of this model and replica, created before
  bool mlock = false;
  bool load_mode_flag = false;        // the build spells it --load-mode mlock
  std::optional<Bytes> prompt_cache;  // --cache-ram, part of the reservation
  std::string projector;              // "" = not installed or not wanted
  std::optional<int> reasoning_budget;
  EngineArgsInput tuning;
};
std::vector<std::string> server_arguments(const ServerArgsInput& input);

// GEZEL_LLAMA_REASONING_BUDGET_TOKENS: empty is unset, anything but a positive number in range fails the
// launch: a typo must not let a model think without end.
Result<std::optional<int>> parse_reasoning_budget(const std::string& text);

}  // namespace gezel::capacity
