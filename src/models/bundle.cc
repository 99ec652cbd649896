#include "models/bundle.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

#include "base/ids.h"
#include "base/utf8.h"
#include "catalog/grammar.h"
#include "downloads/sha256.h"
#include "downloads/url.h"
#include "models/ids.h"

namespace gezel::models {
namespace {

using catalog::Backend;

constexpr std::string_view kRoot = "manifest.json", kModelFolder = "model/",
                           kCatalogFolder = "catalog/chat-models/", kInstalled = "manifests/installed.json",
                           kCatalogManifest = "manifests/catalog.json";
constexpr std::string_view kKind = "gezel-model";
constexpr std::size_t kMaxText = 1024;
constexpr Bytes kMaxCatalogFile = 4 * kMiB;

constexpr std::array<std::pair<std::string_view, BundleRole>, 4> kRoles{
    {{"model", BundleRole::model},
     {"installed-manifest", BundleRole::installed_manifest},
     {"catalog-manifest", BundleRole::catalog_manifest},
     {"catalog-file", BundleRole::catalog_file}}};

// What a system would run when somebody opens it.
constexpr std::string_view kBlocked[] = {".app",   ".bat", ".bin", ".cmd", ".com", ".cpl", ".dll",
                                         ".dylib", ".exe", ".js",  ".mjs", ".cjs", ".msi", ".ps1",
                                         ".py",    ".scr", ".sh",  ".so",  ".vbs"};

std::unexpected<Error> bad(std::string message) {
  return fail(ErrorKind::invalid, "invalid_bundle", "the bundle " + std::move(message));
}

bool is_gguf_engine(Backend engine) {
  return engine == Backend::llama_cpp || engine == Backend::ds4;
}

std::optional<Backend> parse_engine(std::string_view text) {
  for (const Backend engine : {Backend::llama_cpp, Backend::mlx, Backend::ds4}) {
    if (text == catalog::to_string(engine)) return engine;
  }
  return std::nullopt;
}

// The role that a path's place gives it.
std::optional<BundleRole> role_of(std::string_view path) {
  if (path == kInstalled) return BundleRole::installed_manifest;
  if (path == kCatalogManifest) return BundleRole::catalog_manifest;
  if (path.starts_with(kModelFolder)) return BundleRole::model;
  if (path.starts_with(kCatalogFolder)) return BundleRole::catalog_file;
  return std::nullopt;
}

std::string_view payload_name(const BundleFile& file) {
  return std::string_view(file.path).substr(kModelFolder.size());
}

// A line of text for people.
Result<std::string> text_at(const json::object& object, std::string_view key, bool required) {
  const auto* value = object.if_contains(key);
  if (value == nullptr && !required) return std::string();
  const auto* text = value == nullptr ? nullptr : value->if_string();
  if (text == nullptr || text->size() > kMaxText || (required && text->empty()) ||
      std::ranges::any_of(*text, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }))
    return bad(fmt::format("has a manifest.json whose \"{}\" is no text of 1 to {} bytes in one line", key,
                           kMaxText));
  return std::string(*text);
}

Result<Bytes> bytes_at(const json::object& object, std::string_view key, std::string_view where) {
  const auto* value = object.if_contains(key);
  if (value != nullptr && value->is_int64() && value->get_int64() >= 0 &&
      static_cast<Bytes>(value->get_int64()) <= zip::kMaxArchiveBytes)
    return static_cast<Bytes>(value->get_int64());
  return bad(fmt::format("has a manifest.json whose {}{} is no number of bytes up to {}", where, key,
                         zip::kMaxArchiveBytes));
}

Result<BundleFile> parse_file(const json::value& value, std::size_t index) {
  const std::string where = fmt::format("files[{}].", index);
  const auto* object = value.if_object();
  if (object == nullptr) return bad(fmt::format("has a manifest.json whose files[{}] is no object", index));
  BundleFile out;
  out.path = string_or(*object, "path");
  if (!catalog::is_contained_path(out.path))
    return bad(fmt::format("has a manifest.json whose {}path is no safe path", where));
  GEZEL_TRY(out.size_bytes, bytes_at(*object, "sizeBytes", where));
  out.sha256 = catalog::lowered(string_or(*object, "sha256"));
  if (!catalog::is_sha256(out.sha256))
    return bad(fmt::format("has a manifest.json whose {}sha256 (of {}) is not 64 hexadecimal digits", where,
                           out.path));
  const std::string role = string_or(*object, "role");
  const auto known = std::ranges::find(kRoles, role, &std::pair<std::string_view, BundleRole>::first);
  if (known == kRoles.end() || role_of(out.path) != known->second)
    return bad(fmt::format("gives {} the role \"{}\", which is not that of its place", out.path, role));
  out.role = known->second;
  const std::string low = catalog::lowered(out.path);
  for (const auto extension : kBlocked) {
    if (low.ends_with(extension))
      return bad(fmt::format("has a file {}; files that end in {} are not taken", out.path, extension));
  }
  return out;
}

Result<> check_roles(const BundleManifest& manifest) {
  std::set<std::string> names;
  for (const auto& file : manifest.files) {
    if (!names.insert(catalog::lowered(file.path)).second)
      return bad(fmt::format("declares {} twice; case does not tell names apart", file.path));
  }
  for (const auto role : {BundleRole::installed_manifest, BundleRole::catalog_manifest}) {
    const auto count = std::ranges::count(manifest.files, role, &BundleFile::role);
    if (count != 1) return bad(fmt::format("must have exactly one {}, and has {}", to_string(role), count));
  }
  Bytes sum = 0;
  std::size_t models = 0;
  for (const auto& file : manifest.files) {
    if (file.role != BundleRole::model) continue;
    ++models;
    sum += file.size_bytes;
    const std::string_view name = payload_name(file);
    if (is_gguf_engine(manifest.engine) &&
        (name.find('/') != std::string_view::npos || !catalog::lowered(name).ends_with(".gguf")))
      return bad(fmt::format("has the model file {}; a {} model has only GGUF files, side by side", file.path,
                             to_string(manifest.engine)));
  }
  if (models == 0) return bad("has no file of a model");
  if (sum != manifest.approx_size_bytes)
    return bad(fmt::format("says that its model has {} bytes, but its files have {}",
                           manifest.approx_size_bytes, sum));
  if (manifest.engine != Backend::mlx) return {};
  const auto has = [&](auto matches) {
    return std::ranges::any_of(manifest.files, [&](const BundleFile& file) {
      return file.role == BundleRole::model && matches(payload_name(file));
    });
  };
  if (!has([](std::string_view name) { return name == "config.json"; }) ||
      !has([](std::string_view name) { return name.ends_with(".safetensors"); }))
    return bad("has an MLX model without a config.json or without safetensors");
  return {};
}

Result<json::object> manifest_in(const zip::Source& source, const Bundle& bundle, BundleRole role) {
  const auto file = std::ranges::find(bundle.manifest.files, role, &BundleFile::role);
  const auto& entry = bundle.entries[static_cast<std::size_t>(file - bundle.manifest.files.begin())];
  GEZEL_TRY(const std::string text, zip::unpack_text(source, entry, kMaxBundleManifest));
  const auto parsed = parse_json(text);
  if (!parsed || !parsed->is_object()) return bad(fmt::format("has a {} that is no JSON object", file->path));
  return parsed->get_object();
}

// The names of an install manifest's payload in their order, by role.
struct Payload {
  std::vector<std::string> parts;
  std::string draft, projector;
};

Payload payload_of(const json::object& installed) {
  Payload out;
  if (const auto* shards = array_at(installed, "shards")) {
    for (const auto& shard : *shards) {
      if (const auto* object = shard.if_object()) out.parts.push_back(string_or(*object, "filename"));
    }
  }
  if (out.parts.empty()) out.parts.push_back(string_or(installed, "weightsFilename"));
  out.draft = string_or(installed, "draftModelFilename");
  out.projector = string_or(installed, "mmprojFilename");
  return out;
}

Result<> check_identity(const Bundle& bundle) {
  const auto& id = bundle.manifest.id;
  const std::string installed = string_or(bundle.installed, "id");
  if (installed != id)
    return bad(fmt::format("is of \"{}\", but its install manifest of \"{}\"", id, installed.substr(0, 200)));
  const std::string catalog_id = string_or(bundle.installed, "catalogId", id);
  if (const std::string named = string_or(bundle.catalog, "id"); named != catalog_id)
    return bad(
        fmt::format("is of \"{}\", but its catalog manifest of \"{}\"", catalog_id, named.substr(0, 200)));
  if (!is_gguf_engine(bundle.manifest.engine)) return {};
  // The install manifest gives the files their places, so it must name just these.
  std::set<std::string, std::less<>> carried;
  for (const auto& file : bundle.manifest.files) {
    if (file.role == BundleRole::model) carried.emplace(payload_name(file));
  }
  const Payload payload = payload_of(bundle.installed);
  std::vector<std::string> named = payload.parts;
  for (const auto& name : {payload.draft, payload.projector}) {
    if (!name.empty()) named.push_back(name);
  }
  for (const auto& name : named) {
    if (carried.erase(name) == 0)
      return bad(
          fmt::format("has an install manifest that names \"{}\", which is no file of its model, or twice",
                      sanitize_utf8(name.substr(0, 200))));
  }
  if (!carried.empty())
    return bad(
        fmt::format("has the model file {}, which its install manifest does not name", *carried.begin()));
  return {};
}

// The beginning of a file, as far as it tells what the file is.
Result<> check_magic(const BundleManifest& manifest, const BundleFile& file, std::string_view beginning) {
  const std::string_view name = payload_name(file);
  if (is_gguf_engine(manifest.engine)) {
    if (!beginning.starts_with("GGUF")) return bad(fmt::format("has {}, which is no GGUF file", file.path));
  } else if (name.ends_with(".safetensors")) {
    std::uint64_t length = 0;
    for (std::size_t i = 8; i-- > 0 && beginning.size() >= 8;)
      length = length << 8 | static_cast<unsigned char>(beginning[i]);
    if (beginning.size() < 9 || length < 2 || length > kMaxSafetensorsHeader ||
        length > file.size_bytes - 8 || beginning[8] != '{')
      return bad(fmt::format("has {}, whose safetensors header is none of 2 bytes to {}", file.path,
                             format_bytes(kMaxSafetensorsHeader)));
  }
  return {};
}

}  // namespace

std::string_view to_string(BundleRole role) {
  return std::ranges::find(kRoles, role, &std::pair<std::string_view, BundleRole>::second)->first;
}

json::object bundle_manifest_json(const BundleManifest& manifest) {
  json::object out{{"schemaVersion", 1},
                   {"kind", kKind},
                   {"id", manifest.id},
                   {"name", manifest.name},
                   {"engine", to_string(manifest.engine)},
                   {"createdAt", manifest.created_at},
                   {"createdBy", manifest.created_by}};
  if (!manifest.catalog_version.empty()) out["catalogVersion"] = manifest.catalog_version;
  out["approxSizeBytes"] = manifest.approx_size_bytes;
  if (manifest.license) {
    json::object license{{"name", manifest.license->name}, {"shortName", manifest.license->short_name}};
    if (manifest.license->license_class != catalog::LicenseClass::unknown)
      license["class"] = catalog::to_string(manifest.license->license_class);
    if (!manifest.license->url.empty()) license["url"] = manifest.license->url;
    out["license"] = std::move(license);
  }
  json::array files;
  for (const auto& file : manifest.files) {
    files.push_back(json::object{{"path", file.path},
                                 {"sizeBytes", file.size_bytes},
                                 {"sha256", file.sha256},
                                 {"role", to_string(file.role)}});
  }
  out["files"] = std::move(files);
  return out;
}

Result<BundleManifest> parse_bundle_manifest(std::string_view text) {
  if (text.size() > kMaxBundleManifest)
    return bad(fmt::format("has a manifest.json of {} bytes; at most {} are taken", text.size(),
                           kMaxBundleManifest));
  const auto parsed = parse_json(text);
  if (!parsed) return bad("has a manifest.json that cannot be read: " + parsed.error().message);
  if (!parsed->is_object()) return bad("has a manifest.json that is no JSON object");
  const auto& members = parsed->get_object();
  if (int_or(members, "schemaVersion", 0) != 1 || string_or(members, "kind") != kKind)
    return bad(
        "is of another kind, or made by a newer version: its manifest.json must have \"schemaVersion\" 1 and "
        "\"kind\" \"gezel-model\"");
  BundleManifest out;
  GEZEL_TRY(out.id, text_at(members, "id", true));
  if (!is_store_safe_id(out.id)) return bad(fmt::format("has the id \"{}\", which cannot be one", out.id));
  GEZEL_TRY(out.name, text_at(members, "name", true));
  GEZEL_TRY(const std::string engine, text_at(members, "engine", true));
  const auto known = parse_engine(engine);
  if (!known) return bad(fmt::format("is for the engine \"{}\"; it must be llama-cpp, mlx or ds4", engine));
  out.engine = *known;
  GEZEL_TRY(out.created_at, text_at(members, "createdAt", true));
  GEZEL_TRY(out.created_by, text_at(members, "createdBy", true));
  GEZEL_TRY(out.catalog_version, text_at(members, "catalogVersion", false));
  GEZEL_TRY(out.approx_size_bytes, bytes_at(members, "approxSizeBytes", ""));
  if (const auto* license = object_at(members, "license")) {
    catalog::License read;
    GEZEL_TRY(read.name, text_at(*license, "name", true));
    GEZEL_TRY(read.short_name, text_at(*license, "shortName", false));
    if (read.short_name.empty()) read.short_name = read.name;
    GEZEL_TRY(const std::string license_class, text_at(*license, "class", false));
    read.license_class = catalog::parse_license_class(license_class);
    GEZEL_TRY(read.url, text_at(*license, "url", false));
    if (!catalog::is_web_url(read.url, true)) read.url.clear();
    out.license = std::move(read);
  }
  const auto* files = array_at(members, "files");
  if (files == nullptr || files->size() > zip::kMaxEntries)
    return bad(fmt::format("has a manifest.json without a list \"files\" of at most {}", zip::kMaxEntries));
  for (std::size_t i = 0; i < files->size(); ++i) {
    GEZEL_TRY(BundleFile file, parse_file((*files)[i], i));
    out.files.push_back(std::move(file));
  }
  GEZEL_CHECK(check_roles(out));
  return out;
}

Result<Bundle> open_bundle(const zip::Source& source) {
  GEZEL_TRY(std::vector<zip::Entry> entries, zip::read_index(source));
  std::map<std::string, zip::Entry, std::less<>> by_name;
  for (auto& entry : entries) by_name.emplace(entry.name, entry);
  const auto root = by_name.find(kRoot);
  if (root == by_name.end()) return bad("has no manifest.json; it is an archive of another kind");
  GEZEL_TRY(const std::string text, zip::unpack_text(source, root->second, kMaxBundleManifest));
  by_name.erase(root);
  Bundle out;
  out.manifest_sha256 = sha256_hex(text);
  GEZEL_TRY(out.manifest, parse_bundle_manifest(text));
  for (const auto& file : out.manifest.files) {
    const auto found = by_name.find(file.path);
    if (found == by_name.end()) return bad(fmt::format("declares {}, which is not in it", file.path));
    if (found->second.size != file.size_bytes)
      return bad(
          fmt::format("has {} bytes of {}, but declares {}", found->second.size, file.path, file.size_bytes));
    if (file.role == BundleRole::catalog_file && file.size_bytes > kMaxCatalogFile)
      return bad(fmt::format("has {} with {} bytes; a file of a catalog has at most {}", file.path,
                             file.size_bytes, kMaxCatalogFile));
    out.entries.push_back(std::move(found->second));
    by_name.erase(found);
  }
  if (!by_name.empty()) return bad(fmt::format("has {}, which it does not declare", by_name.begin()->first));
  GEZEL_TRY(out.installed, manifest_in(source, out, BundleRole::installed_manifest));
  GEZEL_TRY(out.catalog, manifest_in(source, out, BundleRole::catalog_manifest));
  GEZEL_CHECK(check_identity(out));
  return out;
}

Result<> verify_bundle(const zip::Source& source, const Bundle& bundle,
                       const std::function<bool(Bytes)>& progress) {
  Bytes done = 0;
  for (std::size_t i = 0; i < bundle.entries.size(); ++i) {
    const BundleFile& file = bundle.manifest.files[i];
    downloads::Sha256 hash;
    std::string beginning;
    const std::function<Result<>(std::string_view)> read = [&](std::string_view piece) -> Result<> {
      constexpr std::size_t kBeginning = 16;
      if (beginning.size() < kBeginning) beginning += piece.substr(0, kBeginning - beginning.size());
      hash.update(piece);
      done += piece.size();
      if (progress && !progress(done))
        return fail(ErrorKind::cancelled, "cancelled", "the check was cancelled");
      return {};
    };
    GEZEL_CHECK(zip::unpack(source, bundle.entries[i], read));
    if (const std::string digest = hash.hex(); digest != file.sha256) {
      return fail(ErrorKind::invalid, "hash_mismatch",
                  fmt::format("{} in the bundle is damaged: its SHA-256 is {}, and {} is declared", file.path,
                              digest, file.sha256));
    }
    if (file.role == BundleRole::model) GEZEL_CHECK(check_magic(bundle.manifest, file, beginning));
  }
  return {};
}

std::vector<std::string> bundle_warnings(const Bundle& bundle) {
  std::vector<std::string> out;
  if (!bundle.manifest.license)
    out.push_back("The bundle names no licence; find out what its model may be used for.");
  if (bundle.manifest.engine == Backend::mlx) out.push_back("MLX models run on Apple silicon only.");
  return out;
}

Result<InstallPlan> plan_bundle(const Bundle& bundle) {
  const BundleManifest& manifest = bundle.manifest;
  if (manifest.engine != Backend::llama_cpp) {
    return fail(ErrorKind::invalid, "unsupported_backend",
                fmt::format("the bundle is for {}, and this version runs llama-cpp models only",
                            to_string(manifest.engine)));
  }
  InstallPlan out;
  out.id = manifest.id;
  out.name = manifest.name;
  out.source = "bundle";
  const auto& installed = bundle.installed;
  // From another machine, so only what is what it should be is kept.
  const std::string catalog_id = string_or(installed, "catalogId");
  if (catalog::is_catalog_id(catalog_id)) {
    out.catalog_id = catalog_id;
    out.catalog_version = manifest.catalog_version.substr(0, kMaxText);
  }
  if (const std::string text = string_or(installed, "huggingfaceRepo"); catalog::is_repository(text))
    out.repository = text;
  if (const std::string text = string_or(installed, "revision"); catalog::is_revision(text))
    out.revision = text;
  if (const std::string text = string_or(installed, "quantization");
      text.size() <= 32 && std::ranges::all_of(text, [](char c) {
        return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' ||
               c == '-';
      }))
    out.quantization = text;
  const Payload payload = payload_of(installed);
  const auto add = [&](const std::string& name, FileRole role) {
    const auto file = std::ranges::find_if(manifest.files, [&](const BundleFile& each) {
      return each.role == BundleRole::model && payload_name(each) == name;
    });
    PlannedFile next;
    next.name = name;
    next.urls = {"https://bundle.invalid/" + downloads::percent_encoded_path(file->path)};
    next.sha256 = file->sha256;
    next.size_bytes = file->size_bytes;
    next.role = role;
    out.files.push_back(std::move(next));
  };
  for (const auto& part : payload.parts) add(part, FileRole::weights);
  if (!payload.projector.empty()) add(payload.projector, FileRole::projector);
  if (!payload.draft.empty()) add(payload.draft, FileRole::draft);
  GEZEL_CHECK(check_plan(out));
  return out;
}

}  // namespace gezel::models
