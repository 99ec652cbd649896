#include "catalog/parse.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>

#include "catalog/grammar.h"
#include "catalog/parse_parts.h"

namespace gezel::catalog {
namespace {

std::unexpected<Error> bad_file(std::string message, std::string field) {
  return fail(ErrorKind::corrupt, "catalog_invalid", std::move(message), std::move(field));
}

bool is_semver(std::string_view text) {
  return SemVer::parse(text).has_value();
}

Party read_party(const Fields& in) {
  return {in.text("name", true), in.text("url")};
}

LicenseClass read_license_class(const Fields& in) {
  return parse_license_class(
      in.one_of("licenseClass", {"open", "commercial-restricted", "custom-restricted"}));
}

void read_identity(const Fields& in, Item& out) {
  const bool portable = out.kind != Kind::chat_model;
  out.id = in.text("id", true, &is_catalog_id,
                   "2 to 64 of a-z, 0-9, '.', '-' and ':', the first one a letter or digit");
  // Ids of media become file names on every system.
  if (portable && !out.id.empty() && !is_portable_id(out.id))
    in.wrong("id", "a portable file name: letters, digits, '.', '_' and '-', no device name");
  out.name = in.text("name", true);
  out.description = in.text("description");
  if (!in.has("description")) in.missing("description", "a text");
  out.tags = in.texts("tags");
  if (const auto party = in.object("maintainer", true)) out.maintainer = read_party(*party);
  if (const auto party = in.object("maker")) out.maker = read_party(*party);
  const auto url = [](std::string_view text) { return is_web_url(text, true); };
  out.upstream = in.text("upstream", false, url, "a web address");
  out.license = in.text("license");
  out.license_class = read_license_class(in);
  out.license_short_name = in.text("licenseShortName");
  out.license_url = in.text("licenseUrl", false, url, "a web address");
  out.reco_score = static_cast<int>(in.integer("recoScore", 1, std::numeric_limits<int>::max()).value_or(0));
  out.yanked = in.texts("yankedVersions");
  out.aliases = in.texts("aliases");
  out.min_supported =
      SemVer::parse(in.text("minSupportedVersion", false, &is_semver, "a version such as 1.2.0"));
  out.min_service_version = in.text("minServiceVersion");
}

void read_versions(const std::vector<const json::object*>& versions, std::string_view entry, Item& out,
                   std::vector<Problem>& problems) {
  for (std::size_t i = 0; i < versions.size(); ++i) {
    out.versions.push_back(
        read_version(Fields(*versions[i], fmt::format("versions[{}]", i), entry, problems), out.kind));
  }
  std::ranges::stable_sort(out.versions,
                           [](const Version& a, const Version& b) { return a.version > b.version; });
  const auto twice = std::ranges::adjacent_find(
      out.versions, [](const Version& a, const Version& b) { return a.version == b.version; });
  if (twice != out.versions.end() && !twice->version.text().empty()) {
    problems.push_back({std::string(entry), "versions",
                        fmt::format("{}: versions has \"{}\" twice; each must be there once", entry,
                                    twice->version.text())});
  }
}

std::string entry_name(const json::value& value, std::size_t index) {
  if (const auto* object = value.if_object()) {
    if (const std::string id = string_or(*object, "id"); !id.empty() && id.size() <= kMaxCatalogIdLength)
      return id;
  }
  return fmt::format("entry {}", index);
}

void parse_entries(const json::array& entries, Kind kind, Parsed& out) {
  std::set<std::string> seen;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const std::string entry = entry_name(entries[i], i);
    const auto* identity = entries[i].if_object();
    const auto* list = identity == nullptr ? nullptr : array_at(*identity, "versions");
    if (list == nullptr || list->empty() || list->size() > kMaxVersions) {
      out.problems.push_back(
          {entry, "versions",
           fmt::format("{}: versions must be a list of 1 to {} objects", entry, kMaxVersions)});
      continue;
    }
    std::vector<const json::object*> versions;
    for (const auto& version : *list) {
      if (const auto* object = version.if_object()) versions.push_back(object);
    }
    if (versions.size() != list->size()) {
      out.problems.push_back(
          {entry, "versions", fmt::format("{}: every one of versions must be an object", entry)});
      continue;
    }
    auto item = parse_item(kind, *identity, versions, entry, out.problems);
    if (item == nullptr) continue;
    if (!seen.insert(item->id).second) {
      out.problems.push_back(
          {entry, "id", fmt::format("{}: id stands here twice; the first one is used", entry)});
      continue;
    }
    out.items.push_back(std::move(item));
  }
}

Result<json::object> parse_head(std::string_view text, std::optional<Kind> wanted, Kind& kind) {
  auto parsed = parse_json(text);
  if (!parsed) return bad_file("the catalog file cannot be read: " + parsed.error().message, {});
  if (!parsed->is_object()) return bad_file("the catalog file must be a JSON object", {});
  json::object& head = parsed->get_object();
  if (const auto schema = int_or(head, "schemaVersion", 0); schema != kSchemaVersion) {
    return bad_file(fmt::format("schemaVersion is {}; this version reads {}", schema, kSchemaVersion),
                    "schemaVersion");
  }
  const std::string word = string_or(head, "kind");
  const auto found = parse_kind(word);
  if (!found || (wanted && *found != *wanted)) {
    return bad_file(fmt::format("kind is \"{}\"; it must be {}", word,
                                wanted ? to_string(*wanted) : std::string_view("chat-model or image-model")),
                    "kind");
  }
  kind = *found;
  const auto* entries = array_at(head, "entries");
  if (entries == nullptr || entries->size() > kMaxEntries) {
    return bad_file(fmt::format("entries must be a list of at most {} objects", kMaxEntries), "entries");
  }
  const auto count = int_or(head, "count", -1);
  if (count != static_cast<std::int64_t>(entries->size())) {
    return bad_file(fmt::format("count is {}; entries has {}: the file is cut off or was edited by hand",
                                count, entries->size()),
                    "count");
  }
  return std::move(head);
}

}  // namespace

std::string_view to_string(Kind kind) {
  switch (kind) {
    case Kind::chat_model:
      return "chat-model";
    case Kind::image_model:
      return "image-model";
    case Kind::image_lora:
      return "image-lora";
  }
  return {};
}

std::string_view folder_name(Kind kind) {
  switch (kind) {
    case Kind::chat_model:
      return "chat-models";
    case Kind::image_model:
      return "image-models";
    case Kind::image_lora:
      return "image-loras";
  }
  return {};
}

std::optional<Kind> parse_kind(std::string_view word) {
  for (const auto kind : {Kind::chat_model, Kind::image_model, Kind::image_lora}) {
    if (word == to_string(kind) || word == folder_name(kind)) return kind;
  }
  return std::nullopt;
}

std::string_view to_string(LicenseClass license) {
  switch (license) {
    case LicenseClass::unknown:
      return "unknown";
    case LicenseClass::open:
      return "open";
    case LicenseClass::commercial_restricted:
      return "commercial-restricted";
    case LicenseClass::custom_restricted:
      return "custom-restricted";
  }
  return {};
}

LicenseClass parse_license_class(std::string_view word) {
  for (const auto license :
       {LicenseClass::open, LicenseClass::commercial_restricted, LicenseClass::custom_restricted}) {
    if (word == to_string(license)) return license;
  }
  return LicenseClass::unknown;
}

ItemPtr parse_item(Kind kind, const json::object& identity, const std::vector<const json::object*>& versions,
                   std::string_view entry, std::vector<Problem>& problems) {
  const std::size_t before = problems.size();
  auto out = std::make_shared<Item>();
  out->kind = kind;
  const Fields fields(identity, {}, entry, problems);
  read_identity(fields, *out);
  switch (kind) {
    case Kind::chat_model:
      out->chat = read_chat_facts(fields);
      break;
    case Kind::image_model:
      out->image = read_image_facts(fields, out->id);
      break;
    case Kind::image_lora:
      out->lora = read_lora_facts(fields);
      break;
  }
  read_versions(versions, entry, *out, problems);
  if (problems.size() != before) return nullptr;
  out->members = identity;
  out->members.erase("versions");
  out->members["kind"] = to_string(kind);
  return out;
}

Result<Parsed> parse_packed(std::string_view text) {
  Kind kind{};
  GEZEL_TRY(const json::object head, parse_head(text, std::nullopt, kind));
  Parsed out;
  out.content_version = string_or(head, "contentVersion");
  parse_entries(*array_at(head, "entries"), kind, out);
  if (const auto* loras = array_at(head, "loras"); loras != nullptr && kind == Kind::image_model) {
    if (loras->size() > kMaxEntries)
      return bad_file(fmt::format("loras must be a list of at most {} objects", kMaxEntries), "loras");
    parse_entries(*loras, Kind::image_lora, out);
  }
  return out;
}

Result<Parsed> parse_index(std::string_view text, Kind kind) {
  Kind found{};
  GEZEL_TRY(const json::object head, parse_head(text, kind, found));
  Parsed out;
  const auto& entries = *array_at(head, "entries");
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const auto* entry = entries[i].if_object();
    const auto* manifest = entry == nullptr ? nullptr : object_at(*entry, "manifest");
    if (manifest == nullptr) {
      const std::string name = fmt::format("entry {}", i);
      out.problems.push_back({name, "manifest", name + ": manifest must be an object"});
      continue;
    }
    // A resolved manifest is identity and version in one.
    if (auto item = parse_item(kind, *manifest, {manifest}, entry_name(*manifest, i), out.problems))
      out.items.push_back(std::move(item));
  }
  return out;
}

}  // namespace gezel::catalog
