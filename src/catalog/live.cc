#include "catalog/live.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/ids.h"
#include "catalog/grammar.h"
#include "catalog/parse.h"

namespace gezel::catalog {
namespace {

constexpr std::size_t kMaxUrlBytes = 2048;
constexpr Bytes kMaxCurrentBytes = 64 * kKiB;

std::unexpected<Error> invalid(std::string field, std::string_view right) {
  std::string message = fmt::format("{} of the pointer document must be {}", field, right);
  return fail(ErrorKind::corrupt, "catalog_invalid", std::move(message), std::move(field));
}

// "1.2" of "1.2.3-rc".
std::string_view minor_of(std::string_view version) {
  const std::size_t first = version.find('.');
  return version.substr(0, first == std::string_view::npos ? first : version.find('.', first + 1));
}

Result<Pointer::Index> parse_index_entry(std::string_view kind, const json::value& value) {
  const auto field = [&](std::string_view name) { return fmt::format("kinds.{}.{}", kind, name); };
  const auto* members = value.if_object();
  if (members == nullptr) return invalid(fmt::format("kinds.{}", kind), "an object");
  Pointer::Index out;
  const auto count = int_or(*members, "count", -1);
  if (count < 0 || count > static_cast<std::int64_t>(kMaxEntries))
    return invalid(field("count"), fmt::format("a whole number from 0 to {}", kMaxEntries));
  out.count = static_cast<std::size_t>(count);
  out.path = string_or(*members, "indexPath");
  if (!is_contained_path(out.path)) return invalid(field("indexPath"), "a relative path");
  out.sha256 = lowered(string_or(*members, "sha256"));
  if (!is_sha256(out.sha256)) return invalid(field("sha256"), "64 hexadecimal digits");
  return out;
}

}  // namespace

Result<Pointer> parse_pointer(std::string_view text) {
  const auto parsed = parse_json(text);
  if (!parsed || !parsed->is_object()) {
    return fail(ErrorKind::corrupt, "catalog_invalid",
                "the pointer document is no JSON object" + (parsed ? "" : ": " + parsed.error().message));
  }
  const json::object& members = parsed->get_object();
  if (int_or(members, "schemaVersion", 0) != kSchemaVersion)
    return invalid("schemaVersion", fmt::format("{}", kSchemaVersion));
  Pointer out;
  const auto version = SemVer::parse(string_or(members, "contentVersion"));
  if (!version) return invalid("contentVersion", "a version such as 1.2.0");
  out.version = *version;
  out.published_at = string_or(members, "publishedAt");
  out.base_url = string_or(members, "baseUrl");
  while (out.base_url.ends_with('/')) out.base_url.pop_back();
  if (out.base_url.empty() || out.base_url.size() > kMaxUrlBytes) return invalid("baseUrl", "an address");
  const auto* kinds = object_at(members, "kinds");
  if (kinds == nullptr || kinds->empty()) return invalid("kinds", "an object with one member for each kind");
  for (const auto& [word, value] : *kinds) {
    const auto kind = parse_kind(word);
    if (!kind) continue;  // of a later version of the catalog
    GEZEL_TRY(auto index, parse_index_entry(word, value));
    out.kinds[*kind] = std::move(index);
  }
  if (out.kinds.empty()) return invalid("kinds", "an object with a kind that this version knows");
  return out;
}

Result<Parsed> parse_content(std::string_view text, Kind kind) {
  const auto parsed = parse_json(text);
  const auto* members = parsed ? parsed->if_object() : nullptr;
  const auto* entries = members == nullptr ? nullptr : array_at(*members, "entries");
  const auto* first = entries == nullptr || entries->empty() ? nullptr : entries->front().if_object();
  if (first != nullptr && !first->contains("manifest")) {
    GEZEL_TRY(Parsed packed, parse_packed(text));
    std::erase_if(packed.items, [&](const ItemPtr& item) { return item->kind != kind; });
    return packed;
  }
  return parse_index(text, kind);
}

fs::path live_index(const fs::path& folder, std::string_view version, Kind kind) {
  return folder / version / folder_name(kind) / "index.json";
}

Result<LiveContent> read_live(const fs::path& folder) {
  GEZEL_TRY(const std::string text, read_file(folder / kCurrentName, kMaxCurrentBytes));
  const auto bad = [](std::string message) {
    return fail(ErrorKind::corrupt, "catalog_invalid", std::move(message));
  };
  const auto parsed = parse_json(text);
  if (!parsed || !parsed->is_object()) return bad("current.json is no JSON object");
  LiveContent out;
  out.version = string_or(parsed->get_object(), "contentVersion");
  // Becomes a folder's name.
  if (!SemVer::parse(out.version)) return bad("contentVersion of current.json is no version");
  const auto* kinds = object_at(parsed->get_object(), "kinds");
  if (kinds == nullptr) return bad("kinds of current.json is no object");
  for (const auto& [word, value] : *kinds) {
    const auto kind = parse_kind(word);
    const auto* members = value.if_object();
    if (!kind || members == nullptr)
      return bad(fmt::format("kinds.{} of current.json is not right", std::string_view(word)));
    const std::string digest = string_or(*members, "sha256");
    const fs::path file = live_index(folder, out.version, *kind);
    GEZEL_TRY(const std::string content, read_file(file, kMaxDocumentBytes));
    if (const std::string actual = sha256_hex(content); actual != digest) {
      return bad(fmt::format("{} has SHA-256 {}; it must be {}", file.lexically_relative(folder).string(),
                             actual, digest));
    }
    GEZEL_TRY(const Parsed found, parse_content(content, *kind));
    out.items.insert(out.items.end(), found.items.begin(), found.items.end());
    out.sha256[*kind] = digest;
  }
  return out;
}

bool is_eligible(const SemVer& version, std::string_view bundled) {
  const auto own = SemVer::parse(bundled);
  return own && minor_of(version.text()) == minor_of(own->text()) && version > *own;
}

std::vector<ItemName> find_regressions(const std::vector<ItemPtr>& now, const std::vector<ItemPtr>& candidate,
                                       const ServiceLevel& service) {
  std::set<std::pair<Kind, std::string_view>> there;
  for (const auto& item : candidate) {
    if (latest_version(*item, service) != nullptr) there.emplace(item->kind, item->id);
  }
  std::vector<ItemName> out;
  for (const auto& item : now) {
    if (latest_version(*item, service) != nullptr && !there.contains({item->kind, item->id}))
      out.push_back({item->kind, item->id});
  }
  return out;
}

}  // namespace gezel::catalog
