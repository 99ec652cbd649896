// models/store.h
//
// The models installed under <home>/engines/llama-cpp/models (spec 60 sections 7, 8 and 17.1): listing, import, and whether
// a file is still the one that was installed. Blocking; callers on an event loop use a pool thread.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/ids.h"
#include "base/result.h"

namespace gezel::models {

// A parsed install manifest. `id` is the part after "llama-cpp:".
struct InstalledModel {
  std::string id;
  std::string name;
  std::string installed_at;               // ISO
  std::string source;                     // catalog | huggingface | import | external | bundle
  fs::path weights;                       // absolute; the first shard of a split model
  std::vector<fs::path> files;            // every payload file, absolute
  Bytes size_bytes = 0;
  std::string architecture, quantization;
  std::int64_t context_window = 0;        // trained, 0 = unknown
  bool chat_template_present = false;
  std::map<std::string, std::string> sha256;     // payload file name (or absolute path for references) -> digest
  std::map<std::string, FileStamp> stamps;       // of the same files when they were hashed; empty: not hashed yet
};

// A manifest that is there but cannot be used.
struct UnrecognizedModel {
  std::string id;
  std::string reason;
  Bytes bytes = 0;
};

struct Inventory {
  std::vector<InstalledModel> installed;        // sorted by name
  std::vector<UnrecognizedModel> unrecognized;  // largest first
};

struct ImportRequest {
  std::string path;                 // absolute
  std::string mode = "reference";   // reference | link | copy | move
  std::string id, name;             // "" = derived from the file
};

// What a check of the files against the manifest found.
enum class Integrity {
  unchanged,   // size, mtime and inode as recorded: trusted without reading
  changed,     // must be hashed again before it is trusted
  unverified,  // never hashed
};

class ModelStore {
 public:
  ModelStore(fs::path home, const Clock& clock, Entropy& entropy);

  Inventory inventory() const;
  // By exact id. Errors: `model_not_found` (with near misses in the message), `model-invalid` (manifest or files unusable:
  // says which and why; for references also a missing file).
  Result<InstalledModel> find(std::string_view id) const;
  // Ids most like `id`, best first, at most three.
  std::vector<std::string> near_misses(std::string_view id) const;

  // Spec 60 section 17.1. Checks the file by reading its header, publishes atomically. `progress` gets bytes hashed or
  // copied and may return false to cancel. link/copy/move hash at once; reference leaves that to verify().
  Result<InstalledModel> import(const ImportRequest& request, const std::function<bool(Bytes)>& progress = {});

  Integrity check(const InstalledModel& model) const;
  // Reads and hashes every file, records digests and stamps in the manifest. A digest that differs from the recorded one is
  // `model-invalid` with both digests, and the model is refused until it is imported again.
  Result<> verify(const InstalledModel& model, const std::function<bool(Bytes)>& progress = {});

  fs::path root() const { return root_; }

 private:
  fs::path home_, root_;
  const Clock& clock_;
  Entropy& entropy_;
};

}  // namespace gezel::models
