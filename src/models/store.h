// models/store.h
//
// The models installed under <home>/engines/llama-cpp/models (spec 60 sections 7, 8 and 17.1): listing,
// import, and whether a file is still the one that was installed. Blocking; callers on an event loop use a
// pool thread.
//
// Thread-safe within one process. Between processes the home's instance lock keeps writers apart: the daemon
// holds it, and the command line takes it for an import without a daemon.
#pragma once
#include <cstdint>
#include <expected>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/ids.h"
#include "base/result.h"
#include "models/disk_holds.h"

namespace gezel::models {

// A parsed install manifest. `id` is the part after "llama-cpp:".
struct InstalledModel {
  std::string id;
  std::string name;
  std::string installed_at;     // ISO
  std::string source;           // catalog | huggingface | import | external | bundle
  fs::path weights;             // absolute; the first shard of a split model
  fs::path projector;           // absolute; empty: none was asked for
  fs::path draft;               // absolute; a companion for speculative decoding, empty: none
  std::vector<fs::path> files;  // every payload file, absolute, in order; the projector last
  Bytes size_bytes = 0;         // of these files now
  std::string architecture, quantization;
  std::int64_t context_window = 0;  // trained, 0 = unknown
  bool chat_template_present = false;
  std::string default_template;  // "default:<name>" that the engine will use, when the file has no template
  bool read_only = false;        // of the machine's own store: it cannot be deleted or updated from here
  // What it was installed from; "" for imports.
  std::string catalog_id, catalog_version, repository, revision, payload_fingerprint;
  std::string repository_file;  // the path of the first file in the repository, "" = not recorded
  std::string address;          // where a model from any address was downloaded
  // By payload file name, by absolute path for references. Digests: empty until hashed.
  std::map<std::string, std::string> sha256;
  std::map<std::string, FileStamp> stamps;  // of the same files when they were hashed, or else imported
};

// A manifest that is there but cannot be used.
struct UnrecognizedModel {
  std::string id;
  std::string reason;  // with the path of the file it is about: for local people, not for network clients
  Bytes bytes = 0;
  std::string name = {};           // as far as its manifest can be read
  std::int64_t updated_at_ms = 0;  // newest write, milliseconds since 1970
};

// Bytes without a manifest: a download that stopped. Not while it is being installed.
struct IncompleteModel {
  std::string id;
  Bytes bytes = 0;
  std::int64_t updated_at_ms = 0;
  bool has_partial = false;
};

struct Inventory {
  std::vector<InstalledModel> installed;        // sorted by name
  std::vector<UnrecognizedModel> unrecognized;  // largest first
  std::vector<IncompleteModel> incomplete;      // largest first
  bool machine_unread = false;  // the machine has a model that verify_machine_models() has to read first
};

struct ImportRequest {
  std::string path;  // absolute: a file, any part of a split set, or a folder that holds one model
  std::string mode = "reference";  // reference | link | copy | move
  std::string id = {}, name = {};  // "" = derived from the file
  std::string mmproj = {};         // absolute path of a projector to install with it; "" = none
};

// What a check of the files against the manifest found.
enum class Integrity {
  unchanged,   // size, mtime and inode as recorded: trusted without reading
  changed,     // must be hashed again before it is trusted
  unverified,  // never hashed
};

// Deleting a model (spec 60 section 13).
struct RemoveRequest {
  std::string id;
  // The engine that has it loaded or a request queued for it, "" = none: then nothing is deleted. Whoever
  // forces it stops that engine first.
  std::string in_use_by = {};
  // Waits before another try at files that are still open; false = give up. Never called by default.
  std::function<bool(Millis)> wait = {};
  // The machine's own folder has it: what only that has cannot be deleted.
  bool supplied_by_machine = false;
};

// Named places of an install or a publish that was just reached; tests end the process there.
using StepHook = std::function<void(std::string_view)>;

struct Manifest;
class Importer;
class ModelStore;
class SharedModels;

// Models that the machine has for all its users (spec 60 section 7.1).
struct MachineStore {
  fs::path folder;   // GEZEL_SHARED_ASSETS_DIR: models are in <folder>/models/<backend>; "" = there is none
  bool own = false;  // GEZEL_SYSTEM_SCOPE=1: this process is the machine's service, that is its only store
};
// Of the two variables as written; a path that is not absolute counts as none.
MachineStore machine_store(std::string_view folder, std::string_view system_scope);

// An id that is being installed: no import, other install or clean-up touches it while this lives.
class InstallSlot {
 public:
  InstallSlot(InstallSlot&& other) noexcept;
  InstallSlot& operator=(InstallSlot&&) = delete;
  ~InstallSlot();
  const std::string& id() const { return id_; }

 private:
  friend class ModelStore;
  InstallSlot(ModelStore& store, std::string id) : store_(&store), id_(std::move(id)) {}
  ModelStore* store_;
  std::string id_;
};

class ModelStore {
 public:
  // `backend` is the folder below <home>/engines.
  // With a `machine` store that is not our own, what that has and we have not can be used, but not changed;
  // where it is our own, models live there instead of in the home.
  ModelStore(fs::path home, const Clock& clock, Entropy& entropy, std::string_view backend = "llama-cpp",
             const MachineStore& machine = {});
  ~ModelStore();

  Inventory inventory() const;
  // By exact id. Errors: `model_not_found` (with near misses in the message), `model-invalid` (manifest or
  // files unusable: says which and why, by file name; a reference's missing file too).
  // `cancelled`, when `progress` said false: a model of the machine that nobody read yet is read for it.
  Result<InstalledModel> find(std::string_view id, const std::function<bool(Bytes)>& progress = {}) const;
  // What the manifest says, also of a model whose files are missing or refused: then `files_good` is false.
  // Of a refused one no digest is told. Nothing when it cannot be read.
  struct Recorded {
    InstalledModel model;
    bool files_good = true;
  };
  std::optional<Recorded> recorded(std::string_view id) const;
  // Whether something with a manifest has the id, in whatever state; ids are told apart without regard to
  // case.
  bool has(std::string_view id) const;
  // Ids most like `id`, best first, at most three.
  std::vector<std::string> near_misses(std::string_view id) const;

  // Spec 60 section 17.1. Checks the file by reading its header, publishes atomically. `progress` gets bytes
  // hashed or copied and may return false to cancel. link/copy/move hash at once; reference leaves that to
  // verify(). A source that changed since its last import, or whose model cannot be used, is recorded anew
  // under its id. Errors (kind, code): invalid: invalid-model-id, invalid_mode, invalid_path, file_not_found,
  // not_a_model, missing_parts, inside_store, unsupported_backend, unreadable and those of the GGUF reader;
  // conflict: already_imported, model_exists; io: insufficient_disk, io_error.
  Result<InstalledModel> import(const ImportRequest& request,
                                const std::function<bool(Bytes)>& progress = {});
  // The model files behind a path: the file itself, or every model in a folder; each can be imported on its
  // own.
  Result<std::vector<fs::path>> importable(std::string_view path) const;

  Integrity check(const InstalledModel& model) const;
  // Reads and hashes every file, records digests and stamps in the manifest. A digest that differs from the
  // recorded one is `model-invalid` with both digests, and the model is refused until it is imported again.
  Result<> verify(const InstalledModel& model, const std::function<bool(Bytes)>& progress = {});

  // Reads every model of the machine that was not read yet and is not offered before; true when one more is
  // offered now. `progress` may return false to stop.
  bool verify_machine_models(const std::function<bool(Bytes)>& progress = {});
  // At start of the machine's service: moves models of its private store into the machine's, by rename, where
  // none has that id, after it filled in missing digests. Returns their ids.
  std::vector<std::string> move_in_private_models(const std::function<bool(Bytes)>& progress = {});

  // Cleans up after a crash in mid-import: at start, and before each import.
  void recover();
  // At start: removes downloads that nobody went on with for seven days (spec 60 section 12). Returns their
  // ids.
  std::vector<std::string> remove_stale_downloads();

  // Installing. Errors: `invalid-model-id`, `install_in_progress`.
  Result<InstallSlot> begin_install(const std::string& id);
  // The folder a slot's files arrive in; it stays when the install does not end well.
  fs::path staging(const InstallSlot& slot) const;
  // Makes the complete staging folder, manifest included, the installed model.
  Result<> publish_install(const InstallSlot& slot, const StepHook& at_step = {});
  std::optional<Bytes> free_bytes() const { return free_bytes_at(root_); }
  // Of another place beside the store.
  std::optional<Bytes> free_bytes_at(const fs::path& path) const { return free_space_(path); }
  // What installs and copies into this store are still going to write.
  DiskHolds& disk_holds() { return disk_holds_; }

  // Errors: `invalid-model-id`, `model_in_use`, `install_in_progress`, `model_not_installed`, `model_locked`.
  // Also removes what a stopped download left. Files of other places that a model refers to are never
  // touched.
  Result<> remove(const RemoveRequest& request);

  // Remembers that the files were proven to be those of the catalog (section 14). Nothing else changes.
  Result<> record_fingerprint(std::string_view id, const std::string& fingerprint);

  fs::path home() const { return home_; }
  fs::path root() const { return root_; }
  // How much space is free for a path; the default asks the file system. For tests of full disks.
  void set_free_space_probe(std::function<std::optional<Bytes>(const fs::path&)> probe);
  // How a folder that was set aside is removed; called without the lock. For tests.
  void set_remover(std::function<void(const fs::path&)> remover) { remove_folder_ = std::move(remover); }

 private:
  // Folders that were set aside under the lock, to be removed without it by whoever claimed them, so that
  // nobody waits for large files to be unlinked. Made under the lock, ends without it.
  class Doomed {
   public:
    Doomed(ModelStore& store, std::vector<fs::path> folders);  // store.mutex_ is held
    Doomed(const Doomed&) = delete;
    Doomed& operator=(const Doomed&) = delete;
    ~Doomed();
    const std::vector<fs::path>& folders() const { return folders_; }
    void remove();

   private:
    ModelStore& store_;
    std::vector<fs::path> folders_;
  };
  // Why a model cannot be used, for local people (with paths) and for the network (without).
  struct Unusable {
    std::string reason, public_reason;
  };
  std::expected<Manifest, Unusable> load(const std::string& id) const;
  std::vector<std::string> ids() const;  // of every folder that has a manifest
  std::vector<IncompleteModel> incomplete() const;
  bool is_installing(std::string_view id) const;  // mutex_ is held
  // Of the machine's service: others must be able to read a published model. Never fails: it works for us.
  void open_to_all(const std::string& id) const;
  // The same for the complete folder of a model that is not published yet, so that none is ever published
  // closed. Where it lies nobody else gets to it.
  void open_before_publish(const fs::path& folder, const std::string& id) const;
  unsigned manifest_mode() const;
  // Whether a file in this store would get another mode than it has: that of the file under all its names.
  bool needs_opening(const fs::path& file) const;
  friend class Importer;
  friend class InstallSlot;

  fs::path home_, root_;  // paths are checked from home_ on: the machine's folder where that is our own
  fs::path private_home_;
  std::string backend_;
  bool own_machine_ = false;
  std::unique_ptr<SharedModels> shared_;  // null: there is none to read
  const Clock& clock_;
  Entropy& entropy_;
  std::function<std::optional<Bytes>(const fs::path&)> free_space_;
  std::function<void(const fs::path&)> remove_folder_;
  DiskHolds disk_holds_;
  // Guards importing_ and every change of the folders in root_, because imports and checks run on pool
  // threads.
  mutable std::mutex mutex_;
  std::vector<std::string> importing_;  // ids being staged
  std::set<fs::path> doomed_;           // claimed by a Doomed
};

}  // namespace gezel::models
