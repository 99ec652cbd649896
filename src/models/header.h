// models/header.h
//
// What an install needs to know of a model file: read from its GGUF header, bounded, without loading a
// tensor.
#pragma once
#include <cstdint>
#include <string>

#include "base/files.h"
#include "base/result.h"

namespace gezel::models {

struct HeaderFacts {
  std::string architecture;
  std::string name;          // general.name, may be empty
  std::string quantization;  // "Q4_K_M", empty when the file does not say
  std::int64_t context_window = 0;
  bool chat_template_present = false;
  std::string default_template;  // "default:<name>" when the file has none
  bool is_projector = false;     // architecture clip
  bool is_imatrix = false;       // an importance matrix
};

// Errors have kind `invalid` and param `path`: `unreadable`, or the reader's own for what is no GGUF file.
Result<HeaderFacts> read_header(const fs::path& path);

}  // namespace gezel::models
