#include "catalog/catalog.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/log.h"
#include "catalog/grammar.h"
#include "catalog/parse.h"
#include "catalog/tree.h"

namespace gezel::catalog {
namespace {

constexpr std::size_t kMaxLogged = 1000;  // a folder that changes all the time must not fill the memory

}  // namespace

Catalog::Catalog(CatalogOptions options) : options_(std::move(options)) {
  if (!options_.override_folder.empty()) return;
  for (const auto& file : options_.bundled) {
    auto parsed = parse_packed(file.text);
    if (!parsed) {
      log_error("a built-in catalog file cannot be used",
                {{"file", std::string(file.name)}, {"reason", parsed.error().message}});
      continue;
    }
    log_once(parsed->problems, "bundled");
    if (content_version_.empty()) content_version_ = parsed->content_version;
    bundled_.insert(bundled_.end(), parsed->items.begin(), parsed->items.end());
  }
}

std::string Catalog::content_version() const {
  return content_version_;
}

void Catalog::log_once(const std::string& message, std::string_view source) const {
  {
    const std::lock_guard lock(mutex_);
    if (logged_.size() >= kMaxLogged || !logged_.insert(fmt::format("{} {}", source, message)).second) return;
  }
  log_warn("a catalog entry is not used", {{"source", std::string(source)}, {"reason", message}});
}

void Catalog::log_once(const std::vector<Problem>& problems, std::string_view source) const {
  std::string last;
  for (const auto& problem : problems) {
    // One line an entry: the first problem, others are found when it is mended.
    if (problem.entry != last) log_once(problem.message, source);
    last = problem.entry;
  }
}

Result<std::vector<Catalog::Found>> Catalog::items(Kind kind) const {
  std::vector<Found> out;
  std::set<std::string, std::less<>> seen;
  const auto add = [&](const ItemPtr& item, std::string_view source) {
    if (item->kind == kind && seen.insert(item->id).second) out.push_back({item, std::string(source)});
  };
  const auto add_folder = [&](const fs::path& folder, std::string_view source) -> Result<> {
    if (folder.empty()) return {};
    GEZEL_TRY(const Parsed parsed, read_tree(folder, kind));
    log_once(parsed.problems, source);
    for (const auto& item : parsed.items) add(item, source);
    return {};
  };
  GEZEL_CHECK(add_folder(options_.user_folder, "user"));
  GEZEL_CHECK(add_folder(options_.override_folder, "override"));
  for (const auto& item : bundled_) add(item, "bundled");
  return out;
}

Result<std::vector<Resolved>> Catalog::list(Kind kind) const {
  GEZEL_TRY(auto found, items(kind));
  std::vector<Resolved> out;
  for (auto& [item, source] : found) {
    if (const auto* version = latest_version(*item, options_.service)) {
      out.push_back({std::move(item), version, std::move(source)});
    } else if (const auto reason = unresolved_reason(*item, options_.service); !reason.empty()) {
      log_once(reason, source);
    }
  }
  std::ranges::sort(
      out, {}, [](const Resolved& each) { return std::make_tuple(lowered(each.item->name), each.item->id); });
  return out;
}

Result<Resolved> Catalog::get(Kind kind, std::string_view id, std::string_view version) const {
  const auto unknown = [&] {
    return fail(ErrorKind::not_found, "unknown_model",
                fmt::format("\"{}\" is not in the catalog of {}", id.substr(0, 200), folder_name(kind)),
                "model");
  };
  if (!is_catalog_id(id)) return unknown();
  ItemPtr item;
  std::string source;
  // One item is read from its own folder: an index lists only its latest version.
  const std::pair<std::string_view, const fs::path*> folders[] = {{"user", &options_.user_folder},
                                                                  {"override", &options_.override_folder}};
  for (const auto& [name, folder] : folders) {
    if (item != nullptr || folder->empty()) continue;
    std::vector<Problem> problems;
    GEZEL_TRY(item, read_tree_item(*folder, kind, id, problems));
    log_once(problems, name);
    source = name;
  }
  if (item == nullptr) {
    const auto found = std::ranges::find_if(
        bundled_, [&](const ItemPtr& each) { return each->kind == kind && each->id == id; });
    if (found == bundled_.end()) return unknown();
    item = *found;
    source = "bundled";
  }
  const Version* chosen =
      version.empty() ? latest_version(*item, options_.service) : find_version(*item, version);
  if (chosen == nullptr && version.empty()) return unknown();
  if (chosen == nullptr) {
    return fail(ErrorKind::not_found, "unknown_version",
                fmt::format("\"{}\" has no version \"{}\"; its latest is {}", id, version.substr(0, 100),
                            item->versions.front().version.text()),
                "version");
  }
  return Resolved{std::move(item), chosen, std::move(source)};
}

Result<std::string> Catalog::normalise(std::string_view id, const AliasTable& recorded) const {
  GEZEL_TRY(const auto found, items(Kind::chat_model));
  std::vector<ItemPtr> all;
  for (const auto& each : found) all.push_back(each.item);
  return resolve_id(id, all, recorded);
}

}  // namespace gezel::catalog
