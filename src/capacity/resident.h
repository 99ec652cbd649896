// capacity/resident.h
//
// What a loaded model costs apart from its KV cache, estimated from the sizes of its files (spec 20 section
// 7), and what a catalog entry will cost altogether on this machine.
//
// These are the figures for files that are not on disk and for engines that cannot be asked. Where a dry run
// of the worker has figures, planners use those (capacity/memory_plan.h).
#pragma once
#include <optional>

#include "base/bytes.h"
#include "capacity/kv_size.h"

namespace gezel::capacity {

enum class EngineFamily { llama_cpp, mlx, ds4 };
std::string_view engine_family_name(EngineFamily family);  // "llama-cpp", "mlx", "ds4"
std::optional<EngineFamily> parse_engine_family(std::string_view name);

// Weights on disk (all shards) and projector; pass 0 for a projector that will not be loaded.
//   llama-cpp  round((weights + projector) * 11/10) + 256 MiB, + 384 MiB with a projector
//   mlx        round(weights * 102/100) + 1 GiB
//   ds4        min(weights, 48 GiB): it streams, so its working set is not the file
Bytes resident_bytes(EngineFamily family, Bytes weights, Bytes projector = 0);

// What a catalog entry says about its memory.
struct ManifestCosts {
  EngineFamily family = EngineFamily::llama_cpp;
  Bytes weights = 0, projector = 0;
  std::optional<Bytes> resident;          // measured, KV left out; replaces resident_bytes()
  std::optional<Bytes> kv_per_token_f16;  // absent or 0: the entry does not say
  Bytes kv_fixed_f16 = 0;
};

// KV of a catalog entry, 0 where it does not say. MLX always pays f16, whatever type it is asked for: its
// batched layers are not quantized.
inline constexpr Tokens kManifestContext = 65'536;
Bytes manifest_kv_bytes(const ManifestCosts& costs, Tokens context = kManifestContext,
                        KvType type = KvType::q8_0);

// What a rating compares with the machine: weights, buffers and KV at the smallest context that is offered
// here. ds4's figure bounds its KV already.
struct Footprint {
  Bytes bytes = 0;
  bool estimated = false;  // the entry does not say what its KV costs: the heuristic of section 6.5
};
Footprint rating_footprint(const ManifestCosts& costs, Tokens floor, KvType type = KvType::q8_0);

}  // namespace gezel::capacity
