// models/shared_models.h
//
// Models that this machine offers to all its users, in a folder this process may only read (spec 60
// section 7.1). One is offered only after every file of it was hashed and found to be what its manifest says.
// Success is remembered by what identifies each file without reading it; anything else means hashing again.
// Blocking; thread-safe.
#pragma once
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/result.h"
#include "models/store.h"

namespace gezel::models {

class SharedModels {
 public:
  // `root` holds <id>/manifest.json and the files; `memory` is where successes are kept, private to the user
  // (<home>/engines/<backend>/shared-model-verification.json).
  SharedModels(fs::path root, fs::path memory);

  // Those that verified, sorted by name. A rejected one is logged once.
  std::vector<InstalledModel> list();
  // Errors: `model_not_found`, `model-invalid` with what is wrong.
  Result<InstalledModel> find(std::string_view id);
  // Whether a folder of that id is there at all: it then cannot be deleted or updated.
  bool supplies(std::string_view id) const;

 private:
  struct Known {
    std::string sha256;
    FileStamp stamp;
    std::uint64_t device = 0;
  };
  Result<InstalledModel> verify(const std::string& id);
  void load_memory();
  void save_memory() const;

  fs::path root_, memory_path_;
  std::mutex mutex_;  // verifications of one model share one run, as all wait for the first
  std::map<std::string, Known> memory_;  // by path
  bool loaded_ = false;
  std::set<std::string> logged_;
};

// The refusal to delete or update what only the machine's folder has. Code `read-only-model`.
Error read_only_model(std::string_view id);

}  // namespace gezel::models
