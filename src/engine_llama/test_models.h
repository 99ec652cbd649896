// engine_llama/test_models.h
//
// The real models that tests plan for, as the store would give them.
#pragma once
#include <cstdlib>

#include "base/files.h"
#include "models/store.h"

namespace gezel::engine_llama {

inline fs::path test_model(const char* name) {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  return (cache ? fs::path(cache) : fs::path(std::getenv("HOME")) / ".cache") / "gezel-inference" / "models" /
         name;
}

// Of no size where there is no such file.
inline models::InstalledModel installed(const fs::path& file) {
  models::InstalledModel model;
  model.weights = file;
  model.files = {file};
  std::error_code failed;
  model.size_bytes = fs::file_size(file, failed);
  return model;
}

}  // namespace gezel::engine_llama
