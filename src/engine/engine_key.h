// engine/engine_key.h
//
// "<family>:<modelId>:<replica>" (spec 30 section 7.1). Bad keys are rejected, not repaired.
#pragma once
#include <string>
#include <string_view>

#include "base/result.h"

namespace gezel::engine {

struct EngineKey {
  std::string family;  // llama-cpp | mlx | ds4
  std::string model;   // may hold ':'
  unsigned replica = 0;
  bool operator==(const EngineKey&) const = default;
};

Result<EngineKey> parse_engine_key(std::string_view text);
std::string to_string(const EngineKey& key);

}  // namespace gezel::engine
