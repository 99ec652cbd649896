// models/shared_models.h
//
// Models that this machine offers to all its users, in a folder this process may only read (spec 60
// section 7.1). One is offered only after every file of it was hashed and found to be what its manifest says.
// Success is remembered by what identifies each file without reading it; anything else means hashing again.
// Blocking; thread-safe.
#pragma once
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
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

  // Those that verified, sorted by name; reads what was not read before. A rejected one is logged once.
  // `progress` may return false to stop reading; what is not read by then is left out.
  std::vector<InstalledModel> list(const std::function<bool(Bytes)>& progress = {});
  // Those of them that are known without reading a file: what a listing may wait for.
  // `unread` becomes true when there is one that nobody read yet as it is now.
  std::vector<InstalledModel> known(bool* unread = nullptr);
  // Errors: `model_not_found`, `model-invalid` with what is wrong, `cancelled`. Callers that ask for one
  // model at the same time share one reading.
  Result<InstalledModel> find(std::string_view id, const std::function<bool(Bytes)>& progress = {});
  // Whether find() would not have to read.
  bool is_known(std::string_view id);
  // Whether a folder of that id is there at all: it then cannot be deleted or updated.
  bool supplies(std::string_view id) const;
  // Every such id, sorted.
  std::vector<std::string> ids() const;

 private:
  struct Known {
    std::string sha256;
    FileStamp stamp;
    std::uint64_t device = 0;
    bool same_file(const Known& other) const;
  };
  // What a model's manifest promises, checked as far as that goes without reading its files.
  Result<InstalledModel> promised(const std::string& id) const;
  // Whether the file is what it should be, as far as that is known without reading: nothing = it is not
  // known.
  std::optional<Result<>> recall(const std::string& id, const fs::path& file, const Known& now);
  Result<InstalledModel> verify(const std::string& id, const std::function<bool(Bytes)>& progress);
  void load_memory();        // mutex_ is held
  void save_memory() const;  // mutex_ is held

  fs::path root_, memory_path_;
  std::mutex mutex_;  // never held while a file is read
  std::condition_variable verified_;
  std::set<std::string> verifying_;
  std::map<std::string, Known> memory_;  // by path
  std::map<std::string, Known> wrong_;   // files that were read and are not what they should be
  bool loaded_ = false;
  std::set<std::string> logged_;
};

// The refusal to delete or update what only the machine's folder has. Code `read-only-model`.
Error read_only_model(std::string_view id);

}  // namespace gezel::models
