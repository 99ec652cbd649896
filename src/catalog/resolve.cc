#include "catalog/resolve.h"

#include <fmt/format.h>

#include <algorithm>

namespace gezel::catalog {
namespace {

bool floor_met(std::string_view floor, const ServiceLevel& service) {
  return service.ignore_floors || meets_floor(floor, service.level);
}

bool below_minimum(const Item& item, const Version& version) {
  return item.min_supported && version.version < *item.min_supported;
}

}  // namespace

bool is_yanked(const Item& item, const Version& version) {
  return std::ranges::find(item.yanked, version.version.text()) != item.yanked.end();
}

const Version* find_version(const Item& item, std::string_view version) {
  const auto wanted = SemVer::parse(version);
  if (!wanted) return nullptr;
  const auto found =
      std::ranges::find_if(item.versions, [&](const Version& each) { return each.version == *wanted; });
  return found == item.versions.end() ? nullptr : &*found;
}

const Version* latest_version(const Item& item, const ServiceLevel& service) {
  if (!floor_met(item.min_service_version, service)) return nullptr;
  for (const auto& version : item.versions) {
    if (!is_yanked(item, version) && !below_minimum(item, version) &&
        floor_met(version.min_service_version, service))
      return &version;
  }
  return nullptr;
}

std::string unresolved_reason(const Item& item, const ServiceLevel& service) {
  if (!floor_met(item.min_service_version, service)) return {};
  const auto withdrawn = [&](const Version& version) {
    return is_yanked(item, version) || !floor_met(version.min_service_version, service);
  };
  if (std::ranges::all_of(item.versions, withdrawn)) return {};
  return fmt::format(
      "{}: no version is left: minSupportedVersion is {}, and those from it on are yanked or need "
      "a newer service",
      item.id, item.min_supported ? item.min_supported->text() : "absent");
}

json::object resolved_manifest(const Resolved& resolved) {
  const Item& item = *resolved.item;
  json::object out = item.members;
  for (const auto& [name, value] : resolved.version->members) {
    // "id" and "kind" of a version's own manifest file say nothing that identity does not.
    if (name != "id" && name != "kind" && name != "minServiceVersion") out[name] = value;
  }
  if (const auto floor = stricter_floor(item.min_service_version, resolved.version->min_service_version);
      !floor.empty())
    out["minServiceVersion"] = floor;
  json::array versions;
  for (const auto& version : item.versions) {
    versions.push_back(json::object{{"version", version.version.text()},
                                    {"releasedAt", version.released_at},
                                    {"yanked", is_yanked(item, version)}});
  }
  out["availableVersions"] = std::move(versions);
  return out;
}

std::string resolve_id(std::string_view wanted, std::span<const ItemPtr> items, const AliasTable& recorded) {
  const auto find = [&](auto matches) -> const Item* {
    const auto found = std::ranges::find_if(items, [&](const ItemPtr& item) { return matches(*item); });
    return found == items.end() ? nullptr : found->get();
  };
  if (find([&](const Item& item) { return item.id == wanted; })) return std::string(wanted);
  if (const auto* item = find(
          [&](const Item& each) { return std::ranges::find(each.aliases, wanted) != each.aliases.end(); }))
    return item->id;
  if (const auto found = recorded.find(wanted); found != recorded.end()) return found->second;
  constexpr std::string_view kLatest = ":latest";
  const std::string_view bare =
      wanted.ends_with(kLatest) ? wanted.substr(0, wanted.size() - kLatest.size()) : wanted;
  const auto has_tag = [&](const Item& item) {
    return std::ranges::any_of(item.versions, [&](const Version& version) {
      return !version.ollama_tag.empty() && (version.ollama_tag == wanted || version.ollama_tag == bare);
    });
  };
  if (const auto* item = find(has_tag)) return item->id;
  return std::string(wanted);
}

}  // namespace gezel::catalog
