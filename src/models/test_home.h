// models/test_home.h
//
// A store in a home of its own for every test, and small model files to install.
#pragma once
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/files.h"
#include "base/ids.h"
#include "base/json.h"
#include "base/test_folder.h"
#include "gguf/test_file.h"
#include "models/store.h"

namespace gezel::models::testing {

// Bytes that are the same in every run.
class CountingEntropy final : public Entropy {
 public:
  void fill(unsigned char* out, std::size_t size) override {
    for (std::size_t i = 0; i < size; ++i) out[i] = next_++;
  }

 private:
  std::atomic<unsigned char> next_ = 1;
};

// A complete, tiny model. `fill` makes files differ.
inline std::string tiny_model(std::string_view architecture = "llama", std::uint64_t fill = 64) {
  gguf::testing::TestFile file;
  file.text("general.architecture", architecture)
      .text("general.name", "Tiny")
      .u32("general.file_type", 15)
      .u32(std::string(architecture) + ".context_length", 4096)
      .text("tokenizer.chat_template", "{{ messages }}")
      .tensor("token_embd.weight", fill);
  return file.bytes();
}

// While it lives no file or folder can be opened.
class NoNewFiles {
 public:
  NoNewFiles() {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit none{0, before_.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &none);
  }
  NoNewFiles(const NoNewFiles&) = delete;
  NoNewFiles& operator=(const NoNewFiles&) = delete;
  ~NoNewFiles() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

class StoreTest : public ::testing::Test {
 protected:
  std::string error_code(const auto& result) { return result ? "" : result.error().code; }
  json::object manifest_of(const std::string& id) {
    return parse_json(read_file(store.root() / id / "manifest.json").value()).value().as_object();
  }
  Result<InstalledModel> import(const fs::path& path, std::string mode = "reference", std::string id = {}) {
    return store.import(
        {.path = path.string(), .mode = std::move(mode), .id = std::move(id), .name = {}, .mmproj = {}});
  }

  TestFolder home, files;
  ManualClock clock;
  CountingEntropy entropy;
  ModelStore store{home.path(), clock, entropy};
};

}  // namespace gezel::models::testing
