#include "models/discovery.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/json.h"
#include "catalog/grammar.h"
#include "gguf/split.h"
#include "models/header.h"
#include "models/ids.h"
#include "models/shards.h"

namespace gezel::models {
namespace {

constexpr std::size_t kMaxEntries = 65536;
constexpr Bytes kMaxOllamaManifest = 1 * kMiB;

bool is_inside(const fs::path& path, const fs::path& real_root) {
  std::error_code error;
  const fs::path real = fs::canonical(path, error);
  if (error) return false;
  return std::mismatch(real_root.begin(), real_root.end(), real.begin(), real.end()).first == real_root.end();
}

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

class Discovery {
 public:
  Discovery(const CatalogMatch& match, std::size_t max_folders, std::stop_token stop)
      : match_(match), max_folders_(max_folders), stop_(std::move(stop)) {}

  void hub(const fs::path& root) {
    begin("huggingface", root);
    for (const auto& repository : entries(root)) {
      if (!repository.filename().string().starts_with("models--")) continue;
      if (const auto snapshot = current_snapshot(repository)) folder(*snapshot, 1);
    }
  }

  void tree(std::string source, const fs::path& root, int depth) {
    begin(std::move(source), root);
    if (!real_root_.empty()) folder(root, depth);
  }

  void ollama(const fs::path& root) {
    begin("ollama", root);
    // <host>/<namespace>/<model>/<tag>
    for (const auto& host : entries(root / "manifests")) {
      for (const auto& space : entries(host)) {
        for (const auto& model : entries(space)) {
          for (const auto& tag : entries(model)) {
            if (stop_.stop_requested()) return;
            ollama_manifest(root, model.filename().string(), tag);
          }
        }
      }
    }
  }

  std::vector<DiscoveredModel> take() { return std::move(out_); }

 private:
  void begin(std::string source, const fs::path& root) {
    source_ = std::move(source);
    std::error_code error;
    real_root_ = fs::canonical(root, error);
    if (error) real_root_.clear();
    seen_folders_.clear();
  }

  // Entries of a folder, sorted; none when it cannot be read, or there is to be no further look.
  std::vector<fs::path> entries(const fs::path& folder) const {
    std::vector<fs::path> out;
    if (stop_.stop_requested()) return out;
    std::error_code error;
    fs::directory_iterator it(folder, error);
    for (const fs::directory_iterator end; !error && it != end && out.size() < kMaxEntries;
         it.increment(error))
      out.push_back(it->path());
    std::ranges::sort(out);
    return out;
  }

  bool is_mlx_folder(const fs::path& folder) const {
    std::error_code ignored;
    if (!fs::exists(folder / "config.json", ignored)) return false;
    return std::ranges::any_of(entries(folder),
                               [](const fs::path& path) { return path.extension() == ".safetensors"; });
  }

  bool allowed(const fs::path& path) const { return !real_root_.empty() && is_inside(path, real_root_); }

  std::optional<fs::path> current_snapshot(const fs::path& repository) const {
    if (stop_.stop_requested()) return std::nullopt;
    const fs::path snapshots = repository / "snapshots";
    if (const auto text = read_file(repository / "refs" / "main", 1 * kKiB)) {
      std::string commit = *text;
      while (!commit.empty() && static_cast<unsigned char>(commit.back()) <= ' ') commit.pop_back();
      if (catalog::is_contained_path(commit) && is_folder(snapshots / commit)) return snapshots / commit;
    }
    std::optional<fs::path> newest;
    fs::file_time_type when{};
    for (const auto& snapshot : entries(snapshots)) {
      std::error_code error;
      const auto time = fs::last_write_time(snapshot, error);
      if (!error && is_folder(snapshot) && (!newest || time > when)) {
        newest = snapshot;
        when = time;
      }
    }
    return newest;
  }

  // The models of a folder and, `depth` levels down, of those in it.
  void folder(const fs::path& path, int depth) {
    if (stop_.stop_requested() || seen_folders_.size() >= max_folders_ || out_.size() >= kMaxDiscovered)
      return;
    std::error_code error;
    const fs::path real = fs::canonical(path, error);
    // Links may lead round in circles.
    if (error || !allowed(path) || !seen_folders_.insert(real).second) return;
    if (const auto files = model_files_in(path); files && !files->empty()) {
      const auto projectors = projectors_beside(files->front());
      for (const auto& file : *files) {
        if (stop_.stop_requested() || out_.size() >= kMaxDiscovered) return;
        if (allowed(file)) add_file(file, file.stem().string(), projectors);
      }
    }
    if (is_mlx_folder(path)) {
      DiscoveredModel row = start({path}, path.filename().string());
      row.reason = "it is an MLX model, which needs Apple silicon";
      finish(std::move(row));
    }
    if (depth <= 0) return;
    for (const auto& entry : entries(path)) {
      if (is_folder(entry) && !entry.filename().string().starts_with('.')) folder(entry, depth - 1);
    }
  }

  DiscoveredModel start(std::vector<fs::path> paths, std::string name) {
    DiscoveredModel row;
    row.source = source_;
    row.paths = std::move(paths);
    row.name = std::move(name);
    return row;
  }

  void add_file(const fs::path& file, std::string stem, const std::vector<fs::path>& projectors) {
    const auto split = gguf::parse_split_name(file.filename().string());
    DiscoveredModel row = start({file}, split ? split->prefix : std::move(stem));
    if (auto parts = gather_parts(file)) {
      row.paths = std::move(*parts);
    } else {
      row.reason = parts.error().message;
    }
    if (!projectors.empty()) row.projector = projectors.front();
    read(std::move(row));
  }

  void read(DiscoveredModel row) {
    for (const auto& path : row.paths) {
      std::error_code error;
      const auto size = fs::file_size(path, error);
      if (!error) row.size_bytes += size;
    }
    const auto facts = read_header(row.paths.front());
    if (!facts) {
      if (row.reason.empty()) row.reason = facts.error().message;
    } else if (facts->is_projector || facts->is_imatrix) {
      return;  // belongs to a model and is none
    } else {
      row.architecture = facts->architecture;
      row.quantization = facts->quantization;
      row.context_window = facts->context_window;
      row.importable = row.reason.empty();
    }
    if (match_ && row.paths.size() == 1) {
      if (const auto digest = known_digest(row.paths.front()); !digest.empty())
        row.catalog_match = match_(row.size_bytes, digest);
    }
    finish(std::move(row));
  }

  // Caches name their blobs by digest: "<64 digits>", or "sha256-<64 digits>".
  static std::string known_digest(const fs::path& path) {
    std::error_code error;
    std::string name = fs::canonical(path, error).filename().string();
    if (name.starts_with("sha256-")) name.erase(0, 7);
    return !error && catalog::is_sha256(name) ? catalog::lowered(name) : std::string();
  }

  void finish(DiscoveredModel row) {
    if (out_.size() >= kMaxDiscovered) return;
    const std::string base = local_id(row.name);
    for (int number = 1; row.suggested_id.empty(); ++number) {
      std::string id = numbered_id(base, number);
      if (ids_.insert(id).second) row.suggested_id = std::move(id);
    }
    out_.push_back(std::move(row));
  }

  void ollama_manifest(const fs::path& root, const std::string& model, const fs::path& tag) {
    std::error_code ignored;
    if (!fs::is_regular_file(tag, ignored) || !allowed(tag)) return;
    const auto text = read_file(tag, kMaxOllamaManifest);
    const auto parsed = text ? parse_json(*text) : Result<json::value>(json::value());
    const auto* layers = parsed && parsed->is_object() ? array_at(parsed->get_object(), "layers") : nullptr;
    if (layers == nullptr) return;
    const std::string name = fmt::format("{}:{}", model, tag.filename().string());
    fs::path weights, projector;
    bool tensors = false;
    for (const auto& layer : *layers) {
      const auto* members = layer.if_object();
      if (members == nullptr) continue;
      const std::string type = string_or(*members, "mediaType"), digest = string_or(*members, "digest");
      tensors = tensors || type == "application/vnd.ollama.image.tensor";
      // The name of a blob is made of a digest that was checked, so it is one segment.
      if (!digest.starts_with("sha256:") || !catalog::is_sha256(digest.substr(7))) continue;
      const fs::path blob = root / "blobs" / ("sha256-" + digest.substr(7));
      if (type == "application/vnd.ollama.image.model" && weights.empty()) weights = blob;
      if (type == "application/vnd.ollama.image.projector" && projector.empty()) projector = blob;
    }
    if (weights.empty() && !tensors) return;
    DiscoveredModel row = start({weights.empty() ? tag : weights}, name);
    if (weights.empty()) {
      row.reason = "its tensors are stored one by one, which only the program it belongs to can read";
      finish(std::move(row));
      return;
    }
    if (!allowed(weights)) {
      row.reason = fmt::format("its file {} is missing or lies elsewhere", weights.filename().string());
      finish(std::move(row));
      return;
    }
    if (!projector.empty() && allowed(projector)) row.projector = projector;
    read(std::move(row));
  }

  const CatalogMatch& match_;
  const std::size_t max_folders_;
  const std::stop_token stop_;
  std::string source_;
  fs::path real_root_;
  std::set<fs::path> seen_folders_;
  std::set<std::string> ids_;
  std::vector<DiscoveredModel> out_;
};

fs::path first_set(const std::function<std::string(std::string_view)>& variable,
                   std::initializer_list<std::pair<std::string_view, std::string_view>> names,
                   fs::path otherwise) {
  for (const auto& [name, below] : names) {
    if (const std::string value = variable(name); !value.empty())
      return below.empty() ? fs::path(value) : fs::path(value) / below;
  }
  return otherwise;
}

}  // namespace

DiscoveryRoots discovery_roots(const std::function<std::string(std::string_view)>& variable,
                               const fs::path& home, RootSystem system, std::vector<fs::path> user_folders) {
  DiscoveryRoots out;
  out.hub = first_set(variable,
                      {{"LLAMA_CACHE", ""},
                       {"HF_HUB_CACHE", ""},
                       {"HUGGINGFACE_HUB_CACHE", ""},
                       {"HF_HOME", "hub"},
                       {"XDG_CACHE_HOME", "huggingface/hub"}},
                      home / ".cache/huggingface/hub");
  switch (system) {
    case RootSystem::linux:
      out.llama_cache = home / ".cache/llama.cpp";
      break;
    case RootSystem::macos:
      out.llama_cache = home / "Library/Caches/llama.cpp";
      break;
    case RootSystem::windows:
      if (const std::string local = variable("LOCALAPPDATA"); !local.empty())
        out.llama_cache = fs::path(local) / "llama.cpp";
      break;
  }
  out.lm_studio = {home / ".lmstudio/models", home / ".cache/lm-studio/models"};
  out.ollama = first_set(variable, {{"OLLAMA_MODELS", ""}}, home / ".ollama/models");
  out.user_folders = std::move(user_folders);
  return out;
}

CatalogMatch match_catalog(std::vector<catalog::Resolved> items) {
  std::map<std::pair<Bytes, std::string>, std::string> known;
  for (const auto& resolved : items) {
    const auto& source = resolved.version->llama_cpp;
    if (source && source->files.size() == 1)
      known.emplace(std::pair{source->files[0].size_bytes, source->files[0].sha256}, resolved.item->id);
  }
  return [known = std::move(known)](Bytes size, std::string_view sha256) {
    const auto found = known.find({size, std::string(sha256)});
    return found == known.end() ? std::string() : found->second;
  };
}

std::vector<DiscoveredModel> discover(const DiscoveryRoots& roots, const CatalogMatch& match,
                                      std::stop_token stop) {
  Discovery discovery(match, roots.max_folders, std::move(stop));
  if (!roots.hub.empty()) discovery.hub(roots.hub);
  if (!roots.llama_cache.empty()) discovery.tree("llama.cpp", roots.llama_cache, 0);
  for (const auto& root : roots.lm_studio) discovery.tree("lm-studio", root, 2);
  if (!roots.ollama.empty()) discovery.ollama(roots.ollama);
  for (const auto& root : roots.user_folders) discovery.tree("user", root, kMaxDiscoveryDepth);
  return discovery.take();
}

}  // namespace gezel::models
