// models/signature.h
//
// Is a file what its kind of model is made of, by its first bytes? (spec 60 section 11 rule 6)
#pragma once
#include "base/files.h"
#include "base/result.h"

namespace gezel::models {

// GGUF magic, or the header of a safetensors file: its length (8 bytes, little-endian) between 2 bytes and 16
// MiB, then a JSON object. Error `not_a_model`.
Result<> check_signature(const fs::path& path);

}  // namespace gezel::models
