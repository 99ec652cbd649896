// gguf/file_type.h
//
// Names of `general.file_type`, the quantization that most of a model's tensors use (llama.cpp's
// llama_ftype).
#pragma once
#include <cstdint>
#include <string>

namespace gezel::gguf {

// "MOSTLY_Q4_K_M", "ALL_F32"; an unknown number n is "UNKNOWN_<n>".
std::string file_type_name(std::uint64_t file_type);

// What people call it: "Q4_K_M", "F32"; "" when the number is unknown.
std::string quantization_label(std::uint64_t file_type);

}  // namespace gezel::gguf
