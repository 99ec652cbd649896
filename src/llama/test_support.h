// llama/test_support.h
//
// Where the tests find their models and vocabularies: in the dependency cache that set-up filled.
#pragma once
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/test_folder.h"
#include "llama/llama.h"

namespace gezel::llama::testing {

inline std::filesystem::path cache_folder() {
  const char* base = std::getenv("XDG_CACHE_HOME");
  const std::filesystem::path root = base != nullptr && *base != '\0'
                                         ? std::filesystem::path(base)
                                         : std::filesystem::path(std::getenv("HOME")) / ".cache";
  return root / "gezel-inference";
}

inline std::filesystem::path smollm_path() {
  return cache_folder() / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf";
}
inline std::filesystem::path gemma_path() {
  return cache_folder() / "models" / "gemma-3-270m-q4_k_m.gguf";
}

// The folder with the library's vocabulary-only models.
inline std::filesystem::path vocab_folder() {
  for (const auto& entry : std::filesystem::directory_iterator(cache_folder() / "src")) {
    auto folder = entry.path() / "vendor" / "llama.cpp" / "models";
    if (std::filesystem::exists(folder / "ggml-vocab-llama-bpe.gguf")) return folder;
  }
  return {};
}

// Its files, in the order of their names.
inline std::vector<std::filesystem::path> vocabularies() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(vocab_folder())) {
    if (entry.path().extension() == ".gguf") files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

inline std::string read_whole(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

inline std::unique_ptr<Model> load_or_die(const std::filesystem::path& path, bool vocab_only = false) {
  auto model = Model::load({.path = path.string(), .vocab_only = vocab_only});
  if (!model) {
    ADD_FAILURE() << path.filename() << ": " << model.error().message;
    std::abort();
  }
  return std::move(*model);
}

// One load for all tests of a program: they only read it.
inline const Model& smollm() {
  static const auto model = load_or_die(smollm_path());
  return *model;
}
inline const Model& gemma() {
  static const auto model = load_or_die(gemma_path());
  return *model;
}

}  // namespace gezel::llama::testing
