#include "catalog/tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "catalog/grammar.h"
#include "catalog/parse.h"

namespace gezel::catalog {
namespace {

constexpr std::string_view kManifest = "manifest.json";
constexpr std::string_view kVersions = "versions";

bool is_absent(const std::error_code& error) {
  return error == std::errc::no_such_file_or_directory || error == std::errc::not_a_directory;
}

std::unexpected<Error> unreadable(const fs::path& path, const std::error_code& error) {
  return fail(ErrorKind::io, "catalog_unreadable",
              fmt::format("the catalog folder {} cannot be read: {}; make it readable or remove it",
                          path.string(), error.message()));
}

// Folders in `path`, sorted; hidden ones and everything else are passed over.
Result<std::vector<fs::path>> folders_in(const fs::path& path) {
  std::vector<fs::path> out;
  std::error_code error;
  fs::directory_iterator it(path, error);
  for (const fs::directory_iterator end; !error && it != end; it.increment(error)) {
    std::error_code ignored;
    if (it->path().filename().string().starts_with('.') || !fs::is_directory(it->symlink_status(ignored)))
      continue;
    out.push_back(it->path());
    if (out.size() > kMaxEntries) {
      return fail(ErrorKind::too_large, "catalog_too_large",
                  fmt::format("the catalog folder {} has more than {} entries", path.string(), kMaxEntries));
    }
  }
  if (error && !is_absent(error)) return unreadable(path, error);
  std::ranges::sort(out);
  return out;
}

// Nothing when the file is not there. What cannot be read because of the system is an error.
Result<std::optional<std::string>> file_text(const fs::path& path, Bytes limit) {
  std::error_code error;
  const auto status = fs::symlink_status(path, error);
  if (status.type() == fs::file_type::not_found || (error && is_absent(error))) return std::nullopt;
  if (error) return unreadable(path, error);
  if (!fs::is_regular_file(status)) return std::nullopt;
  auto text = read_file(path, limit);
  if (!text && text.error().kind == ErrorKind::not_found) return std::nullopt;
  if (!text) return std::unexpected(std::move(text).error());
  return std::move(*text);
}

// "a.b[0].c" -> "/a/b/0/c".
std::string pointer_of(std::string_view field) {
  std::string out;
  for (std::size_t i = 0; i < field.size(); ++i) {
    const char c = field[i];
    if (i == 0 && c != '[') out += '/';
    if (c == '.' || c == '[') {
      out += '/';
    } else if (c == '~') {
      out += "~0";
    } else if (c == '/') {
      out += "~1";
    } else if (c != ']') {
      out += c;
    }
  }
  return out;
}

// The number of "versions[3].llamaCpp", which is taken off the front.
std::optional<std::size_t> take_version(std::string_view& field) {
  constexpr std::string_view kOpen = "versions[";
  if (!field.starts_with(kOpen)) return std::nullopt;
  std::size_t number = 0;
  const char* end = field.data() + field.size();
  const auto [at, error] = std::from_chars(field.data() + kOpen.size(), end, number);
  if (error != std::errc() || at == end || *at != ']') return std::nullopt;
  field.remove_prefix(static_cast<std::size_t>(at - field.data()) + 1);
  if (field.starts_with('.')) field.remove_prefix(1);
  return number;
}

class ItemReader {
 public:
  ItemReader(Kind kind, const fs::path& folder, std::vector<Problem>& problems)
      : kind_(kind), folder_(folder), name_(folder.filename().string()), problems_(problems) {}

  Result<ItemPtr> read() {
    std::string why;
    GEZEL_TRY(const auto identity, object(folder_ / kManifest, why));
    if (!identity) return skip(std::string(kManifest), why, folder_ / kManifest);
    if (const auto id = string_or(*identity, "id"); id != name_) {
      return skip("id", fmt::format("is \"{}\"; it must be the folder's name, \"{}\"", id, name_),
                  folder_ / kManifest, "/id");
    }
    if (const auto kind = string_or(*identity, "kind", to_string(kind_)); kind != to_string(kind_)) {
      return skip("kind", fmt::format("is \"{}\"; it must be \"{}\" here", kind, to_string(kind_)),
                  folder_ / kManifest, "/kind");
    }
    GEZEL_TRY(const auto folders, folders_in(folder_ / kVersions));
    if (folders.empty()) return skip(std::string(kVersions), "has no version", folder_ / kVersions);
    if (folders.size() > kMaxVersions) {
      return skip(std::string(kVersions),
                  fmt::format("has {} versions; at most {} are read", folders.size(), kMaxVersions),
                  folder_ / kVersions);
    }
    std::vector<json::object> versions;
    for (const auto& folder : folders) {
      const std::string name = folder.filename().string();
      GEZEL_TRY(auto version, object(folder / kManifest, why));
      if (!version) return skip(fmt::format("{}/{}/{}", kVersions, name, kManifest), why, folder / kManifest);
      if (const auto word = string_or(*version, "version"); word != name) {
        return skip("version", fmt::format("is \"{}\"; it must be the folder's name, \"{}\"", word, name),
                    folder / kManifest, "/version");
      }
      versions.push_back(std::move(*version));
    }
    std::vector<const json::object*> pointers;
    for (const auto& version : versions) pointers.push_back(&version);
    const std::size_t before = problems_.size();
    auto item = parse_item(kind_, *identity, pointers, name_, problems_);
    for (std::size_t i = before; i < problems_.size(); ++i) place(problems_[i], folders);
    return item;
  }

 private:
  // Says in which file the field stands.
  void place(Problem& problem, const std::vector<fs::path>& versions) const {
    std::string_view field = problem.field;
    const auto version = take_version(field);
    problem.file =
        inside(version && *version < versions.size() ? versions[*version] / kManifest : folder_ / kManifest);
    problem.pointer = pointer_of(field);
  }
  // <kind>/<shard>/<id>/...
  std::string inside(const fs::path& path) const {
    return path.lexically_relative(folder_.parent_path().parent_path().parent_path()).string();
  }

  ItemPtr skip(std::string field, std::string_view what, const fs::path& file, std::string pointer = {}) {
    std::string message = fmt::format("{}: {} {}", name_, field, what);
    problems_.push_back({name_, std::move(field), std::move(message), inside(file), std::move(pointer)});
    return nullptr;
  }

  // Nothing: `why` says why not.
  Result<std::optional<json::object>> object(const fs::path& path, std::string& why) {
    auto text = file_text(path, kMaxManifestBytes);
    if (!text && text.error().kind != ErrorKind::too_large) return std::unexpected(std::move(text).error());
    if (!text) {
      why = fmt::format("is too large; at most {} bytes are read", kMaxManifestBytes);
      return std::nullopt;
    }
    if (!*text) {
      why = "is missing, or no regular file";
      return std::nullopt;
    }
    auto parsed = parse_json(**text);
    if (!parsed || !parsed->is_object()) {
      why = parsed ? "is no JSON object" : "cannot be read: " + parsed.error().message;
      return std::nullopt;
    }
    return std::move(parsed->get_object());
  }

  Kind kind_;
  const fs::path& folder_;
  std::string name_;
  std::vector<Problem>& problems_;
};

std::string shard_of(std::string_view id) {
  return lowered(id.substr(0, 2));
}

}  // namespace

std::string where_and_what(const Problem& problem) {
  if (problem.file.empty()) return problem.message;
  const std::string known = fmt::format("{}: {} ", problem.entry, problem.field);
  const std::string_view message = problem.message;
  if (!message.starts_with(known)) return fmt::format("{}: {}", problem.file, message);
  return fmt::format("{}: {}{}{}", problem.file, problem.pointer, problem.pointer.empty() ? "" : " ",
                     message.substr(known.size()));
}

Result<ItemPtr> read_tree_item(const fs::path& root, Kind kind, std::string_view id,
                               std::vector<Problem>& problems) {
  if (!is_catalog_id(id)) return ItemPtr();
  const fs::path folder = root / folder_name(kind) / shard_of(id) / id;
  // The grammar leaves no way out; the path is looked at as well.
  const auto relative = folder.lexically_normal().lexically_relative(root.lexically_normal());
  if (relative.empty() || *relative.begin() == "..") return ItemPtr();
  std::error_code error;
  const auto status = fs::symlink_status(folder, error);
  if (error && !is_absent(error)) return unreadable(folder, error);
  if (!fs::is_directory(status)) return ItemPtr();
  return ItemReader(kind, folder, problems).read();
}

Result<Parsed> read_tree(const fs::path& root, Kind kind) {
  const fs::path folder = root / folder_name(kind);
  auto index = file_text(folder / "index.json", kMaxIndexBytes);
  if (!index && index.error().kind != ErrorKind::too_large) return std::unexpected(std::move(index).error());
  if (index && *index) {
    if (auto parsed = parse_index(**index, kind)) return std::move(*parsed);
  }
  Parsed out;
  GEZEL_TRY(const auto shards, folders_in(folder));
  for (const auto& shard : shards) {
    GEZEL_TRY(const auto items, folders_in(shard));
    for (const auto& item : items) {
      const std::string id = item.filename().string();
      if (shard_of(id) != shard.filename().string()) {
        out.problems.push_back({id, "folder",
                                fmt::format("{}: its folder must lie in \"{}\", not in \"{}\"", id,
                                            shard_of(id), shard.filename().string()),
                                item.lexically_relative(root).string()});
        continue;
      }
      GEZEL_TRY(auto read, ItemReader(kind, item, out.problems).read());
      if (read != nullptr) out.items.push_back(std::move(read));
    }
  }
  return out;
}

}  // namespace gezel::catalog
