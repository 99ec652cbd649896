// gguf/geometry.h
//
// Turns the kept values of a header into Geometry. Internal to the module.
#pragma once
#include <string_view>

#include "gguf/metadata.h"

namespace gezel::gguf {

// True for keys whose value may be an array with one entry per layer.
bool is_per_layer_key(std::string_view key);

// Keys are "<architecture>.<suffix>" exactly, so that a projector's "clip.vision.block_count" never stands in
// for the language model's; only a file that names no architecture is searched by suffix.
Geometry resolve_geometry(const Values& values, std::string_view architecture);
std::optional<std::int64_t> resolve_pooling_type(const Values& values, std::string_view architecture);

}  // namespace gezel::gguf
