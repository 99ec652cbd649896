#include "service/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>

#include "base/files.h"
#include "downloads/url.h"
#include "engine/engine_key.h"
#include "service/model_name.h"

namespace gezel::service {
namespace {

constexpr Bytes kMaxConfigBytes = 1 * kMiB;
constexpr std::size_t kMaxModelNameBytes = 200;
constexpr std::size_t kMaxReplicaRows = 256;
constexpr std::size_t kMaxDraftModelBytes = 4'096;
constexpr int kMostDraftTokens = 48;
constexpr std::size_t kShownBytes = 80;

std::string shown(const json::value& value) {
  std::string text = to_json(value);
  if (text.size() <= kShownBytes) return text;
  std::size_t end = kShownBytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end) + "...";
}

class ConfigReader {
 public:
  explicit ConfigReader(ConfigFile& out) : out_(out) {}

  void read(const json::object& file) {
    if (const auto* provider = member(file, "provider")) {
      const auto* text = provider->if_string();
      if (text != nullptr && is_provider(*text)) {
        out_.config.pins.provider = std::string(*text);
      } else {
        wrong("/provider", *provider, "one of " + provider_list());
      }
    }
    read_pins(file);
    if (const auto* done = member(file, "firstRunCompleted")) {
      if (done->is_bool()) {
        out_.config.first_run_completed = done->get_bool();
      } else {
        wrong("/firstRunCompleted", *done, "true or false");
      }
    }
    read_dirs(file);
    read_updates(file);
    read_replicas(file);
    read_prompt_cache(file);
    read_draft(file);
  }

 private:
  static const json::value* member(const json::object& object, std::string_view name) {
    const auto* value = object.if_contains(name);
    return value == nullptr || value->is_null() ? nullptr : value;
  }
  void wrong(std::string pointer, const json::value& value, std::string_view right) {
    std::string message = fmt::format("{} is {}; it must be {}", pointer, shown(value), right);
    out_.problems.push_back({std::move(pointer), std::move(message)});
  }

  void read_pins(const json::object& file) {
    const auto* pins = member(file, "defaultModel");
    if (pins == nullptr) return;
    if (!pins->is_object()) return wrong("/defaultModel", *pins, "an object of providers and their models");
    for (const auto& [provider, model] : pins->get_object()) {
      const std::string pointer = fmt::format("/defaultModel/{}", std::string_view(provider));
      const auto* text = model.if_string();
      if (!is_provider(provider)) {
        out_.problems.push_back(
            {pointer, fmt::format("{}: is no provider; it must be one of {}", pointer, provider_list())});
      } else if (text == nullptr || text->empty() || text->size() > kMaxModelNameBytes) {
        wrong(pointer, model, fmt::format("a model's id of 1 to {} bytes", kMaxModelNameBytes));
      } else {
        out_.config.pins.default_model.emplace(provider, *text);
      }
    }
  }

  void read_dirs(const json::object& file) {
    const auto* dirs = member(file, "modelDirs");
    if (dirs == nullptr) return;
    if (!dirs->is_array() || dirs->get_array().size() > kMaxModelDirs)
      return wrong("/modelDirs", *dirs, fmt::format("a list of at most {} absolute paths", kMaxModelDirs));
    std::size_t index = 0;
    for (const auto& dir : dirs->get_array()) {
      const auto* text = dir.if_string();
      if (text != nullptr && text->starts_with('/')) {
        out_.config.model_dirs.emplace_back(std::string(*text));
      } else {
        wrong(fmt::format("/modelDirs/{}", index), dir, "an absolute path");
      }
      ++index;
    }
  }

  void read_updates(const json::object& file) {
    const auto* updates = member(file, "catalogUpdates");
    if (updates == nullptr) return;
    if (!updates->is_object()) return wrong("/catalogUpdates", *updates, "an object");
    CatalogUpdateSettings out;
    if (const auto* url = member(updates->get_object(), "url")) {
      const auto* text = url->if_string();
      const auto parsed =
          text == nullptr ? Result<downloads::Url>(std::unexpected(Error{})) : downloads::parse_source(*text);
      if (!parsed)
        return wrong("/catalogUpdates/url", *url, "an https:// address (http:// on this machine only)");
      out.url = std::string(*text);
    }
    if (const auto* enabled = member(updates->get_object(), "enabled")) {
      if (!enabled->is_bool()) return wrong("/catalogUpdates/enabled", *enabled, "true or false");
      out.enabled = enabled->get_bool();
    }
    if (out.enabled && out.url.empty()) {
      out_.problems.push_back({"/catalogUpdates/url",
                               "/catalogUpdates/url is absent; it must be the address of a pointer document "
                               "where updates are enabled"});
      return;
    }
    out_.config.catalog_updates = std::move(out);
  }

  // A whole number of the range, else nothing and a problem.
  std::optional<int> number(const json::value& value, std::string pointer, int least, int most) {
    const auto* found = value.if_int64();
    if (found != nullptr && *found >= least && *found <= most) return static_cast<int>(*found);
    wrong(std::move(pointer), value, fmt::format("a whole number from {} to {}", least, most));
    return std::nullopt;
  }

  void read_replicas(const json::object& file) {
    auto& out = out_.config.replicas;
    if (const auto* most = member(file, "localEngineReplicasMax")) {
      if (const auto value = number(*most, "/localEngineReplicasMax", 1, engine::kMostReplicas))
        out.most = *value;
    }
    const auto* wanted = member(file, "localEngineReplicas");
    if (wanted == nullptr) return;
    if (!wanted->is_object() || wanted->get_object().size() > kMaxReplicaRows) {
      return wrong(
          "/localEngineReplicas", *wanted,
          fmt::format("an object of at most {} models and their numbers of workers", kMaxReplicaRows));
    }
    for (const auto& [model, count] : wanted->get_object()) {
      const std::string pointer = fmt::format("/localEngineReplicas/{}", std::string_view(model));
      if (!engine::parse_engine_key(std::string(model) + ":0")) {
        out_.problems.push_back({pointer, pointer + " is no model; it must be <family>:<id>, for example "
                                                    "llama-cpp:smollm2-135m-instruct"});
      } else if (const auto value = number(count, pointer, 0, engine::kMostReplicas)) {
        out.wanted.emplace(model, *value);
      }
    }
  }

  std::optional<Bytes> mebibytes(const std::string& pointer, const json::value& value) {
    constexpr std::int64_t kMost = std::int64_t{1} << 40;
    if (value.is_int64() && value.get_int64() >= 0 && value.get_int64() <= kMost)
      return static_cast<Bytes>(value.get_int64()) * kMiB;
    wrong(pointer, value, "a whole number of MiB from 0 on");
    return std::nullopt;
  }

  void read_prompt_cache(const json::object& file) {
    auto& out = out_.config.prompt_cache;
    if (const auto* budgets = member(file, "cacheBudgetMb")) {
      if (!budgets->is_object()) {
        wrong("/cacheBudgetMb", *budgets, "an object of engines and their budgets");
      } else if (const auto* own = member(budgets->get_object(), "embedded")) {
        out.memory = mebibytes("/cacheBudgetMb/embedded", *own);
      }
    }
    if (const auto* scope = member(file, "embeddedCacheScope")) {
      if (scope->is_string() && (scope->get_string() == "model" || scope->get_string() == "tenant")) {
        out.per_tenant = scope->get_string() == "tenant";
      } else {
        wrong("/embeddedCacheScope", *scope, "\"model\" or \"tenant\"");
      }
    }
    if (const auto* disk = member(file, "embeddedDiskCache")) {
      if (disk->is_bool()) {
        out.disk = disk->get_bool();
      } else {
        wrong("/embeddedDiskCache", *disk, "true or false");
      }
    }
    if (const auto* budget = member(file, "embeddedDiskCacheBudgetMb"))
      out.disk_all = mebibytes("/embeddedDiskCacheBudgetMb", *budget);
  }

  void read_draft(const json::object& file) {
    auto& out = out_.config.draft;
    if (const auto* type = member(file, "llamaCppSpecType")) {
      const auto* text = type->if_string();
      if (text != nullptr && (*text == "none" || *text == engine_llama::kDraftSimple)) {
        out.type = std::string(*text);
      } else {
        wrong("/llamaCppSpecType", *type, "none or draft-simple");
      }
    }
    if (const auto* model = member(file, "llamaCppDraftModelPath")) {
      const auto* text = model->if_string();
      if (text != nullptr && !text->empty() && text->size() <= kMaxDraftModelBytes) {
        out.model = std::string(*text);
      } else {
        wrong("/llamaCppDraftModelPath", *model, "an absolute path, or the id of an installed model");
      }
    }
    if (const auto* most = member(file, "llamaCppSpecDraftNMax"))
      out.most = number(*most, "/llamaCppSpecDraftNMax", 1, kMostDraftTokens);
  }

  ConfigFile& out_;
};

// Of this process: a file has one daemon, and the command line asks that.
std::mutex& change_mutex() {
  static std::mutex mutex;
  return mutex;
}

}  // namespace

int ReplicaSettings::count(std::string_view qualified_id) const {
  const auto found = wanted.find(qualified_id);
  return found == wanted.end() ? 1 : std::clamp(found->second, 1, most);
}

std::filesystem::path config_path(const std::filesystem::path& home) {
  return home / "config.json";
}

ConfigFile parse_config(std::string_view text) {
  ConfigFile out;
  const auto parsed = parse_json(text);
  if (!parsed) {
    out.problems.push_back({"", "is not used: " + parsed.error().message});
  } else if (!parsed->is_object()) {
    out.problems.push_back({"", "is not used: it must be a JSON object"});
  } else {
    ConfigReader(out).read(parsed->get_object());
  }
  return out;
}

ConfigFile read_config(const std::filesystem::path& home) {
  const auto text = read_file(config_path(home), kMaxConfigBytes);
  if (text) return parse_config(*text);
  ConfigFile out;
  if (text.error().kind != ErrorKind::not_found) {
    out.problems.push_back(
        {"", text.error().kind == ErrorKind::too_large
                 ? fmt::format("is not used: it is too large; at most {} bytes are read", kMaxConfigBytes)
                 : "is not used: it cannot be read: " + text.error().message});
  }
  return out;
}

Result<> change_config(const std::filesystem::path& home, const std::function<void(json::object&)>& change) {
  const std::lock_guard lock(change_mutex());
  json::object members;
  if (const auto text = read_file(config_path(home), kMaxConfigBytes)) {
    auto parsed = parse_json(*text);
    if (!parsed || !parsed->is_object()) {
      return fail(ErrorKind::conflict, "bad_config",
                  "config.json is no JSON object and is left as it is; correct or remove it");
    }
    members = std::move(parsed->get_object());
  } else if (text.error().kind != ErrorKind::not_found) {
    return std::unexpected(text.error());
  }
  change(members);
  GEZEL_CHECK(make_private_folder(home));
  return write_file_atomic(config_path(home), to_json(members) + "\n");
}

Result<std::vector<std::filesystem::path>> read_model_dirs(std::string_view text, std::string_view from) {
  std::vector<std::filesystem::path> out;
  while (!text.empty()) {
    const std::size_t colon = std::min(text.find(':'), text.size());
    const std::string_view word = text.substr(0, colon);
    text.remove_prefix(std::min(colon + 1, text.size()));
    if (word.empty()) continue;
    if (!word.starts_with('/')) {
      return fail(ErrorKind::invalid, "bad_model_dir",
                  fmt::format("{} has '{}'; it must be absolute paths, separated by colons", from, word));
    }
    out.emplace_back(word);
  }
  if (out.size() > kMaxModelDirs) {
    return fail(ErrorKind::invalid, "bad_model_dir",
                fmt::format("{} has {} folders; at most {} are looked at", from, out.size(), kMaxModelDirs));
  }
  return out;
}

std::vector<std::filesystem::path> join_model_dirs(std::vector<std::filesystem::path> first,
                                                   const std::vector<std::filesystem::path>& then) {
  std::vector<std::filesystem::path> out;
  const auto add = [&](const std::filesystem::path& path) {
    std::filesystem::path normal = path.lexically_normal();
    if (!normal.has_filename()) normal = normal.parent_path();
    if (out.size() < kMaxModelDirs && std::ranges::find(out, normal) == out.end())
      out.push_back(std::move(normal));
  };
  std::ranges::for_each(first, add);
  std::ranges::for_each(then, add);
  return out;
}

}  // namespace gezel::service
