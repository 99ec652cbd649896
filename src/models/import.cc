// Import of a local file in three steps: look (which files, what does the header say), stage (a folder beside
// the store is filled: copies, links or nothing but a manifest), publish (one rename). Only the choice of the
// id and the publish hold the store's lock, so that a long copy stops nobody.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/log.h"
#include "base/utf8.h"
#include "gguf/split.h"
#include "models/disk.h"
#include "models/header.h"
#include "models/ids.h"
#include "models/manifest.h"
#include "models/preflight.h"
#include "models/publish.h"
#include "models/shards.h"
#include "models/store.h"

namespace gezel::models {
namespace {

enum class Mode { reference, link, copy, move };

constexpr std::array<std::pair<std::string_view, Mode>, 4> kModes{
    {{"reference", Mode::reference}, {"link", Mode::link}, {"copy", Mode::copy}, {"move", Mode::move}}};
constexpr std::size_t kMaxPathLength = 4096;
constexpr std::size_t kMaxNameLength = 200;
constexpr int kMaxNumberedIds = 1000;

std::unexpected<Error> bad_path(std::string code, std::string message, std::string param = "path") {
  return fail(ErrorKind::invalid, std::move(code), std::move(message), std::move(param));
}

Result<fs::path> absolute_path(std::string_view text, std::string_view param) {
  const fs::path path(text);
  if (text.size() > kMaxPathLength || text.find('\0') != std::string_view::npos || !path.is_absolute()) {
    return bad_path("invalid_path",
                    fmt::format("{} must be an absolute path of at most {} bytes", param, kMaxPathLength),
                    std::string(param));
  }
  // Links stay as they are: parts of a split set are found by name, and other programs' caches name files by
  // links.
  fs::path normal = path.lexically_normal();
  return normal.has_filename() ? normal : normal.parent_path();
}

// The kind of thing at `path`; absent and unreachable are errors.
Result<fs::file_type> type_at(const fs::path& path, std::string_view param) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) {
    return bad_path("file_not_found", fmt::format("there is no file {}", path.string()), std::string(param));
  }
  if (status.type() == fs::file_type::none) {
    return bad_path("unreadable", fmt::format("{} cannot be read: {}", path.string(), error.message()),
                    std::string(param));
  }
  return status.type();
}

bool is_mlx_folder(const fs::path& folder) {
  std::error_code error;
  if (!fs::exists(folder / "config.json", error)) return false;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (it->path().extension() == ".safetensors") return true;
  }
  return false;
}

// A title for people: one line of valid text.
std::string display_name(std::string_view text) {
  std::string out;
  for (const char c : sanitize_utf8(text)) out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  while (
      out.size() > kMaxNameLength ||
      (!out.empty() && (static_cast<unsigned char>(out.back()) & 0xC0) == 0x80 && find_invalid_utf8(out))) {
    out.pop_back();
  }
  if (find_invalid_utf8(out)) out.resize(*find_invalid_utf8(out));
  const auto first = out.find_first_not_of(' ');
  return first == std::string::npos ? std::string()
                                    : out.substr(first, out.find_last_not_of(' ') - first + 1);
}

std::string stem_of(const fs::path& weights) {
  if (const auto split = gguf::parse_split_name(weights.filename().string())) return split->prefix;
  return weights.stem().string();
}

}  // namespace

// One import, from request to published model.
class Importer {
 public:
  Importer(ModelStore& store, const ImportRequest& request, std::function<bool(Bytes)> progress)
      : store_(store), request_(request), progress_(std::move(progress)) {}
  ~Importer() { release(); }

  Result<InstalledModel> run() {
    GEZEL_CHECK(look());
    GEZEL_CHECK(reserve());
    GEZEL_CHECK(check_space());
    GEZEL_TRY(Staging staging, Staging::create(store_.home_, store_.root_, id_));
    GEZEL_CHECK(fill(staging));
    std::optional<ModelStore::Doomed> doomed;
    {
      const std::lock_guard lock(store_.mutex_);
      store_.open_before_publish(staging.folder(), id_);
      GEZEL_TRY(fs::path old, staging.publish(store_.entropy_));
      doomed.emplace(store_, std::vector{std::move(old)});
    }
    doomed->remove();
    release();
    if (mode_ == Mode::move) remove_sources();
    return store_.find(id_);
  }

 private:
  // Which files, and are they a model?
  Result<> look() {
    const auto mode = std::find_if(kModes.begin(), kModes.end(),
                                   [&](const auto& entry) { return entry.first == request_.mode; });
    if (mode == kModes.end()) {
      return bad_path("invalid_mode",
                      fmt::format("mode is \"{}\"; it must be reference, link, copy or move", request_.mode),
                      "mode");
    }
    mode_ = mode->second;
    if (!request_.id.empty() && !is_store_safe_id(request_.id)) {
      return fail(
          ErrorKind::invalid, "invalid-model-id",
          fmt::format(
              "\"{}\" cannot be a model id: use a letter or digit, then letters, digits, '.', '-' and "
              "':', at most {} characters",
              request_.id, kMaxIdLength),
          "id");
    }
    GEZEL_TRY(const std::vector<fs::path> models, store_.importable(request_.path));
    if (models.size() > 1) {
      std::vector<std::string> names;
      for (const fs::path& model : models) names.push_back(model.filename().string());
      if (names.size() > 10) names.resize(10);
      return bad_path("not_a_model", fmt::format("{} holds {} models ({}{}); import them one by one",
                                                 request_.path, models.size(), fmt::join(names, ", "),
                                                 models.size() > names.size() ? ", ..." : ""));
    }
    GEZEL_TRY(sources_, gather_parts(models.front()));
    GEZEL_TRY(facts_, read_header(sources_.front()));
    if (facts_.is_projector || facts_.is_imatrix) {
      return bad_path(
          "not_a_model",
          fmt::format("{} is {}, not a model; name the model's own file", sources_.front().string(),
                      facts_.is_projector ? "a projector (pass it as mmproj together with its model)"
                                          : "an importance matrix"));
    }
    // The other parts hold only tensors, but each must be a readable GGUF file.
    for (std::size_t i = 1; i < sources_.size(); ++i) GEZEL_CHECK(read_header(sources_[i]));
    parts_ = sources_.size();
    GEZEL_CHECK(look_at_projector());
    for (const fs::path& source : sources_) {
      GEZEL_CHECK(check_source(source));
      GEZEL_TRY(const FileStamp stamp, stamp_file(source));
      source_stamps_.push_back(stamp);
      total_ += stamp.size;
    }
    return {};
  }

  Result<> look_at_projector() {
    if (request_.mmproj.empty()) return {};
    GEZEL_TRY(const fs::path path, absolute_path(request_.mmproj, "mmproj"));
    GEZEL_TRY(const fs::file_type type, type_at(path, "mmproj"));
    auto facts = type == fs::file_type::regular ? read_header(path) : Result<HeaderFacts>{};
    if (!facts) {
      facts.error().param = "mmproj";
      return std::unexpected(std::move(facts).error());
    }
    if (!facts->is_projector) {
      return bad_path("not_a_model", fmt::format("{} is no projector (architecture clip)", path.string()),
                      "mmproj");
    }
    sources_.push_back(path);
    return {};
  }

  Result<> check_source(const fs::path& source) const {
    std::error_code error;
    const fs::path real = fs::canonical(source, error);
    const fs::path engines = fs::weakly_canonical(store_.root_.parent_path().parent_path(), error);
    const auto [end, ignored] = std::mismatch(engines.begin(), engines.end(), real.begin(), real.end());
    if (end == engines.end()) {
      return bad_path("inside_store", fmt::format("{} lies inside the model store already", source.string()));
    }
    // Copies and links keep their names, which must then be good names inside a model's folder.
    const std::string name = source.filename().string();
    if (mode_ != Mode::reference &&
        (name.front() == '.' || name == kManifestName || find_invalid_utf8(name) ||
         std::any_of(name.begin(), name.end(),
                     [](unsigned char c) { return c < 0x20 || c == 0x7f || c == '\\'; }))) {
      return bad_path("invalid_path",
                      fmt::format("rename {} first: a file in the store is not hidden and has no "
                                  "control characters in its name",
                                  source.string()));
    }
    if (find_invalid_utf8(source.string())) {
      return bad_path("invalid_path", "the path is not valid UTF-8; rename the file or its folder first");
    }
    return {};
  }

  Result<> reserve() {
    std::optional<ModelStore::Doomed> doomed;
    {
      const std::lock_guard lock(store_.mutex_);
      doomed.emplace(store_,
                     recover_publishes(store_.home_, store_.root_, store_.importing_, store_.entropy_));
      GEZEL_TRY(id_, choose_id());
      store_.importing_.push_back(id_);
      reserved_ = true;
    }
    doomed->remove();
    return {};
  }

  void release() {
    if (!std::exchange(reserved_, false)) return;
    const std::lock_guard lock(store_.mutex_);
    std::erase(store_.importing_, id_);
  }

  // Taken by a folder of any kind, or by an import that is under way.
  bool is_taken(std::string_view id) const {
    const auto same = [&](std::string_view other) { return same_id(id, other); };
    if (std::any_of(store_.importing_.begin(), store_.importing_.end(), same)) return true;
    std::error_code error;
    for (fs::directory_iterator it(store_.root_, error), end; !error && it != end; it.increment(error)) {
      if (same(it->path().filename().string())) return true;
    }
    return false;
  }

  // The model that an earlier import of the same file made, or nothing.
  struct Known {
    std::string id;
    bool usable = false;
    bool source_unchanged = false;
  };
  std::optional<Known> known(const std::string& id) const {
    const fs::path folder = store_.root_ / id;
    const auto text = read_file(folder / kManifestName, kMaxManifestBytes);
    if (!text) return std::nullopt;
    const auto manifest = parse_manifest(*text, folder);
    if (!manifest || manifest->imported_from != sources_.front().string()) return std::nullopt;
    const auto* recorded = manifest->members.if_contains("importedStamps");
    return Known{id, store_.load(id).has_value(), recorded != nullptr && *recorded == stamps_json()};
  }

  Result<std::string> choose_id() const {
    for (const std::string& id : store_.ids()) {
      const auto earlier = known(id);
      if (!earlier || !(request_.id.empty() || request_.id == id)) continue;
      if (earlier->usable && earlier->source_unchanged) {
        return fail(ErrorKind::conflict, "already_imported",
                    fmt::format("{} is already imported as \"{}\"; give another id to import it twice",
                                sources_.front().string(), id),
                    "path");
      }
      if (is_importing(id)) break;
      return id;
    }
    if (!request_.id.empty()) {
      if (!is_taken(request_.id)) return request_.id;
      // A model that cannot be used gives way; one that can, or a folder that is no model of ours, does not.
      const auto ids = store_.ids();
      const bool broken =
          std::find(ids.begin(), ids.end(), request_.id) != ids.end() && !store_.load(request_.id);
      if (broken && !is_importing(request_.id)) return request_.id;
      return fail(ErrorKind::conflict, "model_exists",
                  fmt::format("the id \"{}\" is taken; choose another one", request_.id), "id");
    }
    const std::string base = local_id(stem_of(sources_.front()));
    for (int number = 1; number <= kMaxNumberedIds; ++number) {
      std::string id = numbered_id(base, number);
      if (!is_taken(id)) return id;
    }
    return fail(
        ErrorKind::conflict, "model_exists",
        fmt::format("\"{}\" and {} numbered ids after it are taken; give an id", base, kMaxNumberedIds),
        "id");
  }

  bool is_importing(std::string_view id) const {
    return std::any_of(store_.importing_.begin(), store_.importing_.end(),
                       [&](const std::string& other) { return same_id(id, other); });
  }

  // Spec 60 section 10.6: 2 GiB or 2 % of head-room. Links need no space; a move within one file system is a
  // link.
  Result<> check_space() {
    if (mode_ != Mode::copy && mode_ != Mode::move) return {};
    if (mode_ == Mode::move && same_file_system(sources_.front(), store_.home_) &&
        std::ranges::all_of(sources_, [&](const auto& source) { return may_link(source); }))
      return {};
    hold_.emplace(store_.disk_holds_, total_);
    const auto available = store_.free_space_(store_.root_);
    const Bytes required = required_bytes(total_ + hold_->others());
    if (!available || *available >= required) return {};
    return fail(
        ErrorKind::io, "insufficient_disk",
        fmt::format(
            "importing \"{}\" needs {} free (with head-room{}) in the model store, and {} are; free some, "
            "or import it by reference or link",
            id_, format_bytes(required), hold_->others() > 0 ? " and what installs still write" : "",
            format_bytes(*available)),
        "path");
  }

  Result<> fill(const Staging& staging) {
    ManifestDraft draft;
    draft.external = mode_ == Mode::reference;
    if (draft.external) {
      draft.files = sources_;
      draft.stamps = source_stamps_;
    } else {
      GEZEL_CHECK(fill_payload(staging.folder(), draft));
    }
    draft.id = id_;
    draft.installed_at = iso_time(store_.clock_.wall_now());
    draft.source = draft.external ? "external" : "import";
    draft.imported_from = sources_.front().string();
    draft.name = display_name(request_.name);
    if (draft.name.empty()) draft.name = display_name(facts_.name);
    if (draft.name.empty()) draft.name = display_name(stem_of(sources_.front()));
    if (draft.name.empty()) draft.name = id_;
    draft.architecture = facts_.architecture;
    draft.quantization = facts_.quantization;
    draft.context_window = facts_.context_window;
    draft.chat_template_present = facts_.chat_template_present;
    draft.default_template = facts_.default_template;
    if (sources_.size() > parts_) draft.projector = draft.files.back();
    json::object members = draft_manifest(draft);
    members["importedStamps"] = stamps_json();
    return write_file_atomic(staging.folder() / kManifestName, to_json(members) + "\n");
  }

  Result<> fill_payload(const fs::path& folder, ManifestDraft& draft) {
    Bytes before = 0;
    for (std::size_t i = 0; i < sources_.size(); ++i) {
      const fs::path target = folder / sources_[i].filename();
      const auto progress = [&](Bytes bytes) {
        if (hold_) hold_->set(total_ - std::min(total_, before + bytes));
        return !progress_ || progress_(before + bytes);
      };
      GEZEL_TRY(std::string digest, place(sources_[i], target, progress));
      GEZEL_TRY(const FileStamp stamp, stamp_file(target));
      draft.files.push_back(target);
      draft.stamps.push_back(stamp);
      draft.sha256.push_back(std::move(digest));
      before += stamp.size;
    }
    return check_unchanged();
  }

  bool is_unchanged(std::size_t source) const {
    const auto now = stamp_file(sources_[source]);
    return now && *now == source_stamps_[source];
  }

  // A download that reserved its space first has its size from the beginning: only the time of its last write
  // tells that bytes were still coming in. Another file of that name is another inode.
  Result<> check_unchanged() const {
    for (std::size_t i = 0; i < sources_.size(); ++i) {
      if (is_unchanged(i)) continue;
      return fail(ErrorKind::conflict, "model_changing",
                  fmt::format("{} changed while it was imported; try again when it is complete",
                              sources_[i].string()),
                  "path");
    }
    return {};
  }

  // The machine's store opens its files to all; one that stays somebody's own keeps its mode, so it is not
  // linked. A move takes a file's only name away, but not the file behind a symbolic link.
  bool may_link(const fs::path& source) const {
    if (!store_.needs_opening(source)) return true;
    std::error_code error;
    return mode_ == Mode::move && !fs::is_symlink(source, error) && fs::hard_link_count(source, error) == 1;
  }

  // Puts one file into the staging folder and returns its digest.
  Result<std::string> place(const fs::path& source, const fs::path& target,
                            const std::function<bool(Bytes)>& progress) {
    if (mode_ == Mode::copy) return copy_and_hash(source, target, progress);
    // A move is a link first, so that a crash at any moment leaves the file in one place at least.
    std::error_code error;
    if (may_link(source)) {
      fs::create_hard_link(fs::canonical(source, error), target, error);
      if (!error) return sha256_file(target, progress);
    }
    if (mode_ == Mode::move) return copy_and_hash(source, target, progress);
    if (!error) {
      return fail(
          ErrorKind::invalid, "link_failed",
          fmt::format(
              "{} is not readable for all users of this machine, as a model in its store must be, and "
              "a link would change that: use mode copy, or give the file mode 0644 first",
              source.string()),
          "mode");
    }
    return fail(
        ErrorKind::invalid, "link_failed",
        fmt::format("{} cannot be linked into the model store ({}); links need the same file system and the "
                    "file's owner: use mode reference or copy",
                    source.string(), error.message()),
        "mode");
  }

  void remove_sources() const {
    for (std::size_t i = 0; i < sources_.size(); ++i) {
      // What has that name by now was not imported.
      if (!is_unchanged(i)) {
        log_warn("a file that was imported changed since; it is not removed",
                 {{"model", id_}, {"path", sources_[i].string()}});
        continue;
      }
      std::error_code ignored;  // the model is installed; a source that cannot be removed is only left over
      fs::remove(sources_[i], ignored);
    }
  }

  json::array stamps_json() const {
    json::array out;
    for (const FileStamp& stamp : source_stamps_) {
      // Signed, as a parser reads small numbers back: comparing must not depend on the sign of a type.
      out.push_back(
          json::object{{"sizeBytes", static_cast<std::int64_t>(stamp.size)}, {"mtimeNs", stamp.mtime_ns}});
    }
    return out;
  }

  ModelStore& store_;
  const ImportRequest& request_;
  std::function<bool(Bytes)> progress_;
  Mode mode_ = Mode::reference;
  std::vector<fs::path> sources_;  // the parts, then the projector
  std::size_t parts_ = 0;
  std::vector<FileStamp> source_stamps_;
  HeaderFacts facts_;
  Bytes total_ = 0;
  std::string id_;
  std::optional<DiskHold> hold_;
  bool reserved_ = false;
};

Result<InstalledModel> ModelStore::import(const ImportRequest& request,
                                          const std::function<bool(Bytes)>& progress) {
  auto model = Importer(*this, request, progress).run();
  if (model) open_to_all(model->id);
  return model;
}

Result<std::vector<fs::path>> ModelStore::importable(std::string_view text) const {
  GEZEL_TRY(const fs::path path, absolute_path(text, "path"));
  GEZEL_TRY(const fs::file_type type, type_at(path, "path"));
  if (type == fs::file_type::regular) return std::vector<fs::path>{path};
  if (type != fs::file_type::directory) {
    return bad_path("not_a_model", fmt::format("{} is neither a file nor a folder", path.string()));
  }
  GEZEL_TRY(std::vector<fs::path> models, model_files_in(path));
  if (!models.empty()) return models;
  if (is_mlx_folder(path)) {
    return bad_path("unsupported_backend",
                    fmt::format("{} is an MLX model; this version runs GGUF files", path.string()));
  }
  return bad_path("not_a_model", fmt::format("{} holds no GGUF model", path.string()));
}

}  // namespace gezel::models
