// kvcache/fingerprint.h
//
// What a stored prefix depends on besides its tokens. Records of another fingerprint are never read: the
// library itself would accept rows of other weights, another RoPE or another rotation (spec 40
// section 11.10).
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kvcache/keys.h"
#include "kvcache/mode.h"

namespace gezel::kvcache {

inline constexpr std::uint32_t kCodecVersion = 1;  // of Rows and records

struct Fingerprint {
  // Every shard of the model: size and SHA-256 of its content, or of its tensor table where that is not
  // known.
  struct Shard {
    std::uint64_t size = 0;
    std::string digest;
  };
  std::vector<Shard> shards;
  std::string type_k, type_v;  // of the KV cache
  bool full_window_cache = false;
  std::string rope;                 // effective RoPE and YaRN settings, as text
  std::string adapters;             // LoRA and control-vector set
  std::string projector;            // digest; "" without
  bool rotation_disabled = false;   // LLAMA_ATTN_ROT_DISABLE
  std::string backend;              // cuda, metal, vulkan, cpu
  std::string library;              // build of libllama
  std::uint32_t state_version = 3;  // LLAMA_STATE_SEQ_VERSION
  Mode mode = Mode::full;
  // Opaque images only: rows are kept so that neither changes them.
  struct Opaque {
    int slots = 0;
    bool flash_attention = false;
  };
  std::optional<Opaque> opaque;

  Digest digest() const;
};

// The folder of a fingerprint: its first 24 hexadecimal digits.
std::string folder_name(const Digest& fingerprint);

}  // namespace gezel::kvcache
