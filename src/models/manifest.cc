#include "models/manifest.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "models/ids.h"

namespace gezel::models {
namespace {

constexpr std::size_t kMaxFiles = 4096;

std::unexpected<Error> invalid(std::string message) {
  return fail(ErrorKind::corrupt, "model-invalid", std::move(message));
}

bool is_sha256(std::string_view text) {
  return text.size() == 64 && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

// One path segment that stays in the model's folder.
bool is_plain_file_name(std::string_view name) {
  return !name.empty() && name.size() <= 255 && name.front() != '.' && name != kManifestName &&
         std::none_of(name.begin(), name.end(), [](char c) {
           return c == '/' || c == '\\' || static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
         });
}

Result<fs::path> payload_path(std::string_view name, const fs::path& folder, bool external) {
  if (external) {
    const fs::path path(name);
    if (!path.is_absolute() || path != path.lexically_normal() || name.find('\0') != std::string_view::npos) {
      return invalid(fmt::format("its manifest names the file \"{}\", which is no absolute path", name));
    }
    return path;
  }
  if (!is_plain_file_name(name)) {
    return invalid(
        fmt::format("its manifest names the file \"{}\", which is not inside the model's folder", name));
  }
  return folder / name;
}

Result<std::vector<std::string>> payload_names(const json::object& members) {
  std::vector<std::string> names;
  const json::array* shards = array_at(members, "shards");
  const std::string weights = string_or(members, "weightsFilename");
  if (shards == nullptr || shards->empty()) {
    names.push_back(weights);
  } else {
    if (shards->size() > kMaxFiles) {
      return invalid(
          fmt::format("its manifest lists {} shards; at most {} are allowed", shards->size(), kMaxFiles));
    }
    for (const auto& shard : *shards) {
      const auto* object = shard.if_object();
      names.push_back(object == nullptr ? std::string() : string_or(*object, "filename"));
    }
    if (names.front() != weights)
      return invalid("its manifest's weightsFilename is not the first of its shards");
  }
  return names;
}

json::value stamp_json(const FileStamp& stamp) {
  return json::object{{"sizeBytes", stamp.size}, {"mtimeNs", stamp.mtime_ns}, {"inode", stamp.inode}};
}

std::uint64_t unsigned_or_zero(const json::object& object, std::string_view key) {
  const auto* value = object.if_contains(key);
  if (value == nullptr) return 0;
  if (const auto* number = value->if_uint64()) return *number;
  const auto* number = value->if_int64();
  return number != nullptr && *number > 0 ? static_cast<std::uint64_t>(*number) : 0;
}

void read_digests(const json::object& members, InstalledModel& model) {
  if (const auto* digests = object_at(members, "fileSha256")) {
    for (const auto& [name, digest] : *digests) {
      if (digest.is_string() && is_sha256(digest.get_string())) {
        model.sha256.emplace(name, std::string(digest.get_string()));
      }
    }
  }
  if (const auto* stamps = object_at(members, "fileStamps")) {
    for (const auto& [name, value] : *stamps) {
      if (const auto* stamp = value.if_object()) {
        model.stamps.emplace(name,
                             FileStamp{unsigned_or_zero(*stamp, "sizeBytes"), int_or(*stamp, "mtimeNs", 0),
                                       unsigned_or_zero(*stamp, "inode")});
      }
    }
  }
}

}  // namespace

Result<Manifest> parse_manifest(std::string_view text, const fs::path& folder) {
  auto parsed = parse_json(text);
  if (!parsed) return invalid(fmt::format("its manifest.json cannot be read: {}", parsed.error().message));
  if (!parsed->is_object()) return invalid("its manifest.json is not a JSON object");
  Manifest out;
  out.members = parsed->get_object();
  for (const std::string_view required : {"id", "name", "installedAt", "weightsFilename"}) {
    if (string_or(out.members, required).empty()) {
      return invalid(fmt::format("its manifest.json lacks the text member \"{}\"", required));
    }
  }

  InstalledModel& model = out.model;
  model.id = string_or(out.members, "id");
  if (!is_store_safe_id(model.id) || model.id != folder.filename().string()) {
    return invalid(fmt::format("its manifest.json is that of \"{}\", not of its folder \"{}\"", model.id,
                               folder.filename().string()));
  }
  model.name = string_or(out.members, "name");
  model.installed_at = string_or(out.members, "installedAt");
  model.source = string_or(out.members, "source", "catalog");
  model.architecture = string_or(out.members, "architecture");
  model.quantization = string_or(out.members, "quantization");
  model.context_window = std::max<std::int64_t>(0, int_or(out.members, "contextWindow", 0));
  model.default_template = string_or(out.members, "defaultChatTemplate");
  model.catalog_id = string_or(out.members, "catalogId");
  model.catalog_version = string_or(out.members, "catalogVersion");
  model.repository = string_or(out.members, "huggingfaceRepo");
  model.revision = string_or(out.members, "revision");
  model.repository_file = string_or(out.members, "huggingfaceFile");
  model.address = string_or(out.members, "downloadUrl");
  model.payload_fingerprint = string_or(out.members, "payloadFingerprint");
  model.chat_template_present = bool_or(out.members, "chatTemplatePresent", false);

  const bool external = model.source == "external";
  GEZEL_TRY(const std::vector<std::string> names, payload_names(out.members));
  for (const std::string& name : names) {
    GEZEL_TRY(fs::path path, payload_path(name, folder, external));
    model.files.push_back(std::move(path));
  }
  model.weights = model.files.front();
  if (const std::string draft = string_or(out.members, "draftModelFilename"); !draft.empty()) {
    GEZEL_TRY(model.draft, payload_path(draft, folder, external));
    model.files.push_back(model.draft);
  }
  if (const auto* auxiliary = array_at(out.members, "auxiliaryFiles")) {
    for (const auto& file : *auxiliary) {
      const auto* object = file.if_object();
      GEZEL_TRY(
          fs::path path,
          payload_path(object == nullptr ? std::string() : string_or(*object, "filename"), folder, external));
      model.files.push_back(std::move(path));
    }
  }
  if (const std::string projector = string_or(out.members, "mmprojFilename"); !projector.empty()) {
    GEZEL_TRY(model.projector, payload_path(projector, folder, external));
    model.files.push_back(model.projector);
  }
  read_digests(out.members, model);

  out.imported_from = string_or(out.members, "importedFrom");
  if (const auto* refused = object_at(out.members, "refused")) {
    out.refused =
        Refusal{string_or(*refused, "file"), string_or(*refused, "expected"), string_or(*refused, "actual")};
  }
  return out;
}

std::string manifest_name(const fs::path& file, bool external) {
  return external ? file.string() : file.filename().string();
}

json::object draft_manifest(const ManifestDraft& draft) {
  json::object out;
  out["id"] = draft.id;
  out["name"] = draft.name;
  out["installedAt"] = draft.installed_at;
  out["source"] = draft.source;
  Bytes size = 0;
  for (const FileStamp& stamp : draft.stamps) size += stamp.size;
  out["approxSizeBytes"] = size;
  out["weightsFilename"] = manifest_name(draft.files.front(), draft.external);

  const std::size_t parts = draft.files.size() - (draft.projector.empty() ? 0 : 1) -
                            (draft.draft.empty() ? 0 : 1) - draft.auxiliary.size();
  if (parts > 1) {
    json::array shards;
    for (std::size_t i = 0; i < parts; ++i) {
      shards.push_back(json::object{{"filename", manifest_name(draft.files[i], draft.external)},
                                    {"sizeBytes", draft.stamps[i].size}});
    }
    out["shards"] = std::move(shards);
  }
  if (!draft.projector.empty()) out["mmprojFilename"] = manifest_name(draft.projector, draft.external);

  if (!draft.draft.empty()) out["draftModelFilename"] = manifest_name(draft.draft, draft.external);
  if (!draft.auxiliary.empty()) {
    json::array files;
    for (const auto& [role, file] : draft.auxiliary)
      files.push_back(json::object{{"role", role}, {"filename", manifest_name(file, draft.external)}});
    out["auxiliaryFiles"] = std::move(files);
  }
  for (const auto& [name, text] : {std::pair{"catalogId", &draft.catalog_id},
                                   {"catalogVersion", &draft.catalog_version},
                                   {"huggingfaceRepo", &draft.repository},
                                   {"huggingfaceFile", &draft.repository_file},
                                   {"downloadUrl", &draft.address},
                                   {"revision", &draft.revision}}) {
    if (!text->empty()) out[name] = *text;
  }
  for (const auto& [name, value] : draft.media) out[name] = value;

  if (!draft.architecture.empty()) out["architecture"] = draft.architecture;
  if (!draft.quantization.empty()) out["quantization"] = draft.quantization;
  if (draft.context_window > 0) out["contextWindow"] = draft.context_window;
  out["chatTemplatePresent"] = draft.chat_template_present;
  if (!draft.default_template.empty()) out["defaultChatTemplate"] = draft.default_template;
  if (!draft.imported_from.empty()) out["importedFrom"] = draft.imported_from;
  if (draft.sha256.empty()) {
    json::object stamps;
    for (std::size_t i = 0; i < draft.files.size(); ++i) {
      stamps[manifest_name(draft.files[i], draft.external)] = stamp_json(draft.stamps[i]);
    }
    out["fileStamps"] = std::move(stamps);
  } else {
    record_digests(out, draft.external, draft.files, draft.stamps, draft.sha256);
    if (!draft.proven) out.erase("payloadFingerprint");
  }
  return out;
}

void record_digests(json::object& members, bool external, const std::vector<fs::path>& files,
                    const std::vector<FileStamp>& stamps, const std::vector<std::string>& sha256) {
  std::vector<std::pair<std::string, std::string>> digests;
  json::object stamp_members;
  for (std::size_t i = 0; i < files.size(); ++i) {
    const std::string name = manifest_name(files[i], external);
    digests.emplace_back(name, sha256[i]);
    stamp_members[name] = stamp_json(stamps[i]);
  }
  members["sha256"] = sha256.front();
  if (auto* shards = members.if_contains("shards"); shards != nullptr && shards->is_array()) {
    auto& list = shards->get_array();
    for (std::size_t i = 0; i < std::min(list.size(), sha256.size()); ++i) {
      if (list[i].is_object()) list[i].get_object()["sha256"] = sha256[i];
    }
  }
  std::sort(digests.begin(), digests.end());
  json::object sorted;
  for (const auto& [name, digest] : digests) sorted[name] = digest;
  members["fileSha256"] = std::move(sorted);
  // The fingerprint is about content: where a referenced file lies does not matter.
  for (auto& [name, digest] : digests) name = fs::path(name).filename().string();
  members["payloadFingerprint"] = payload_fingerprint(string_or(members, "huggingfaceRepo"), digests);
  members["fileStamps"] = std::move(stamp_members);
}

void record_refusal(json::object& members, const Refusal& refusal, std::string_view at) {
  members["refused"] = json::object{
      {"file", refusal.file}, {"expected", refusal.expected}, {"actual", refusal.actual}, {"at", at}};
}

std::string payload_fingerprint(std::string_view repo,
                                const std::vector<std::pair<std::string, std::string>>& files,
                                std::string_view chat_template) {
  auto sorted = files;
  std::sort(sorted.begin(), sorted.end());
  json::array list;
  for (const auto& [name, digest] : sorted)
    list.push_back(json::array{json::value(name), json::value(digest)});
  // Keys in alphabetical order and no spaces make it canonical.
  json::object canonical;
  if (!chat_template.empty()) canonical["chatTemplate"] = chat_template;
  canonical["files"] = std::move(list);
  canonical["repo"] = repo;
  return sha256_hex(to_json(canonical));
}

}  // namespace gezel::models
