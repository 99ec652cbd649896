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
    if (problem.entry != last) log_once(where_and_what(problem), source);
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
  if (const auto update = live()) {
    for (const auto& item : update->items) add(item, "live");
  }
  for (const auto& item : bundled_) add(item, "bundled");
  return out;
}

std::shared_ptr<const LiveContent> Catalog::live() const {
  if (options_.live_folder.empty() || !options_.override_folder.empty()) return nullptr;
  const auto stamp = stamp_file(options_.live_folder / kCurrentName);
  if (!stamp) return nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (live_stamp_ == *stamp) return live_;
  }
  std::shared_ptr<const LiveContent> out;
  if (auto read = read_live(options_.live_folder); !read) {
    log_warn("an update of the catalog is not used", {{"reason", read.error().message}});
  } else if (const auto version = SemVer::parse(read->version);
             version && is_eligible(*version, content_version_)) {
    out = std::make_shared<const LiveContent>(std::move(*read));
  }
  const std::lock_guard lock(mutex_);
  live_stamp_ = *stamp;
  live_ = out;
  return out;
}

Catalog::Content Catalog::content() const {
  if (!options_.override_folder.empty())
    return {.version = {}, .source = "override", .sha256 = {}, .items = {}};
  if (const auto update = live()) {
    return {.version = update->version, .source = "live", .sha256 = update->sha256, .items = update->items};
  }
  return {.version = content_version_, .source = "bundled", .sha256 = {}, .items = bundled_};
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
  const auto is_it = [&](const ItemPtr& each) { return each->kind == kind && each->id == id; };
  const auto built_in = std::ranges::find_if(bundled_, is_it);
  if (item == nullptr) {
    if (const auto update = live()) {
      const auto found = std::ranges::find_if(update->items, is_it);
      // An index has the latest version only; older ones may still be built in.
      if (found != update->items.end() &&
          (version.empty() || find_version(**found, version) != nullptr || built_in == bundled_.end())) {
        item = *found;
        source = "live";
      }
    }
  }
  if (item == nullptr) {
    if (built_in == bundled_.end()) return unknown();
    item = *built_in;
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

Result<Catalog::UserFolder> Catalog::check_user_folder() const {
  UserFolder out;
  if (options_.user_folder.empty()) return out;
  for (const auto kind : {Kind::chat_model, Kind::image_model, Kind::image_lora}) {
    GEZEL_TRY(Parsed parsed, read_tree(options_.user_folder, kind));
    out.items += parsed.items.size();
    out.problems.insert(out.problems.end(), std::make_move_iterator(parsed.problems.begin()),
                        std::make_move_iterator(parsed.problems.end()));
  }
  return out;
}

Result<std::string> Catalog::normalise(std::string_view id, const AliasTable& recorded) const {
  GEZEL_TRY(const auto found, items(Kind::chat_model));
  std::vector<ItemPtr> all;
  for (const auto& each : found) all.push_back(each.item);
  return resolve_id(id, all, recorded);
}

}  // namespace gezel::catalog
