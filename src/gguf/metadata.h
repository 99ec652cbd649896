// gguf/metadata.h
//
// What a GGUF model file says about itself, read from its header alone (format: ggml's docs/gguf.md, versions
// 2 and 3).
//
// The file is untrusted. Nothing is allocated from a length before that length is checked against what is
// left of the file, the work is bounded by Limits, and whatever is wrong is one Error: kind `corrupt` (or
// `io`, `not_found`), code `model-invalid`, naming the file without its folder, the byte offset, and the key
// or tensor. Reading blocks: callers on an event loop use a pool thread.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "gguf/source.h"
#include "gguf/tensors.h"
#include "gguf/values.h"

namespace gezel::gguf {

// What a reader accepts. The defaults are far above any real model.
struct Limits {
  Bytes header_bytes = 512 * kMiB;  // everything before the tensor data
  std::uint64_t entries = 65'536;   // metadata keys
  std::uint64_t tensors = 1'048'576;
  std::uint64_t key_bytes = 65'535;
  Bytes string_bytes = 16 * kMiB;           // one string value
  std::uint64_t per_layer_entries = 512;    // longer per-layer arrays are treated as absent
  Bytes retained_key_bytes = 256;           // values under longer keys are read but not kept
  Bytes retained_string_bytes = 64 * kKiB;  // longer strings are read but not kept; chat templates always are
  Bytes retained_bytes = 48 * kMiB;         // all kept keys and values together
};

// A count given once for all layers, or layer by layer.
struct LayerCount {
  LayerValues per_layer;  // empty: `mean` holds for every layer
  double mean = 0;
};

// The numbers under "<architecture>." that decide how large KV caches and recurrent states are. Unknown is
// absent, never 0.
struct Geometry {
  std::optional<std::uint64_t> context_length;  // trained window, tokens
  std::optional<std::uint64_t> block_count, embedding_length;
  std::optional<LayerCount> head_count, head_count_kv;
  std::optional<std::uint64_t> key_length, value_length;  // elements per head; absent: embedding / heads
  std::optional<std::uint64_t> key_length_swa,
      value_length_swa;  // in sliding-window layers; absent: as elsewhere
  std::optional<std::uint64_t> key_length_mla, value_length_mla, kv_lora_rank;
  std::optional<std::uint64_t> indexer_key_length;
  std::optional<std::uint64_t> sliding_window;         // tokens
  std::optional<LayerValues> sliding_window_layers;    // 1: windowed, 0: global
  std::optional<std::uint64_t> sliding_window_period;  // the same key as one number
  std::optional<std::uint64_t> shared_kv_layers;       // trailing layers without a cache of their own
  std::optional<std::uint64_t> full_attention_interval;
  std::optional<LayerValues> recurrent_layers;  // 1: recurrent
  std::optional<std::uint64_t> ssm_inner_size, ssm_state_size, ssm_conv_kernel, ssm_group_count;
  std::optional<std::uint64_t> kda_head_dim, shortconv_l_cache;
  std::optional<std::uint64_t> expert_count, expert_used_count;  // mixture of experts when expert_count > 1
  std::optional<std::uint64_t> nextn_predict_layers;             // > 0: ships a multi-token-prediction head
};

struct Metadata {
  std::string file_name;  // without folder
  std::uint32_t version = 0;
  std::uint64_t metadata_count = 0, tensor_count = 0;
  std::uint64_t alignment = 32;

  std::string architecture;  // "" when the file does not say
  std::string name;
  std::optional<std::uint64_t> file_type;
  std::string file_type_name;  // "MOSTLY_Q4_K_M"
  std::string quantization;    // "Q4_K_M"; "" = unknown

  Geometry geometry;
  std::uint64_t vocabulary_tokens = 0;       // 0: the file brings no vocabulary
  std::optional<std::string> chat_template;  // absent: the file brings none
  std::optional<std::int64_t> pooling_type;  // llama_pooling_type: 0 none, 1 mean, 2 cls, 3 last, 4 rank
  // general.sampling.*: "temp", "top_k", "penalty_repeat", ... as numbers; text values are in `values`.
  std::map<std::string, double> sampling;

  std::uint64_t split_count = 1, split_no = 0;
  Bytes file_size_bytes = 0;       // of all shards that are there
  bool file_size_complete = true;  // false: a shard is missing
  Bytes header_bytes = 0;          // where the tensor data begins
  std::vector<Tensor> tensors;     // of this file, in file order
  TensorSizes tensor_sizes;        // of this file; read_model sums all shards

  Values values;  // everything small under its key

  std::uint64_t read_operations = 0;  // physical reads
  Bytes bytes_read = 0;
};

// Reads one file: header, metadata and tensor table, and checks that the file is long enough for every
// tensor. Of a split model it reads the shard that is named; other shards only add to file_size_bytes.
Result<Metadata> read_metadata(const std::filesystem::path& path, const Limits& limits = {});

// The same from bytes; `name` is what messages call the file.
Result<Metadata> read_metadata(ByteSource& source, std::string_view name, const Limits& limits = {});

// Reads a whole model: metadata of the first shard, tensor_sizes and file_size_bytes of all. A later shard as
// `path`, a missing or damaged shard, or one whose numbers do not match fails with a message that names the
// shard.
Result<Metadata> read_model(const std::filesystem::path& path, const Limits& limits = {});

}  // namespace gezel::gguf
