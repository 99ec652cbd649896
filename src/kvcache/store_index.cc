// What is done with all records at once: making them nodes of a tree after a start, and pruning their files.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>

#include "kvcache/store.h"

namespace gezel::kvcache {

AdoptedIndex adopt_index(Tree& tree, const Digest& domain, std::vector<IndexEntry> entries, MonotonicTime now,
                         WallTime wall_now, Heads known) {
  // A record hangs on one that ends where it starts, or on one whose node was split there after it had been
  // written. Both start earlier.
  std::sort(entries.begin(), entries.end(), [](const IndexEntry& a, const IndexEntry& b) {
    return std::tuple(a.header.start, a.header.end, a.header.own) <
           std::tuple(b.header.start, b.header.end, b.header.own);
  });
  std::map<std::uint32_t, std::set<Digest>> joints;
  for (const IndexEntry& entry : entries) joints[entry.header.start].insert(entry.header.parent);
  known.emplace(prefix_hash(domain, {}), std::vector<Key>{});
  AdoptedIndex out;
  for (IndexEntry& entry : entries) {
    RecordHeader& header = entry.header;
    const auto parent = known.find(header.parent);
    if (parent == known.end() || parent->second.size() != header.start) {
      out.left.push_back(std::move(entry));
      continue;
    }
    std::vector<Key> keys = parent->second;
    keys.insert(keys.end(), header.keys.begin(), header.keys.end());
    if (header.end != keys.size()) {
      out.useless.push_back(header.own);
      continue;
    }
    // Where others may hang on it, and its end.
    std::vector<std::uint32_t> ends;
    for (auto joint = joints.upper_bound(header.start); joint != joints.end() && joint->first < header.end;
         ++joint)
      ends.push_back(joint->first);
    ends.push_back(header.end);
    const std::vector<Digest> hashes = prefix_hashes(domain, keys, ends);
    if (hashes.back() != header.own) {
      out.useless.push_back(header.own);
      continue;
    }
    const auto record = std::make_shared<DiskRecord>(DiskRecord{.id = header.own,
                                                                .start = header.start,
                                                                .end = header.end,
                                                                .bytes = entry.bytes,
                                                                .checkpoint = header.has_checkpoint()});
    const auto age = std::max<WallTime::duration>(wall_now - entry.modified, WallTime::duration::zero());
    const MonotonicTime used = now - std::chrono::duration_cast<MonotonicTime::duration>(age);
    if (!tree.adopt(domain, keys, record, header.cls, header.tags, header.shared, used)) {
      out.useless.push_back(header.own);
      continue;
    }
    if (header.pinned) (void)tree.pin(tree.match(domain, keys).path.back());
    for (std::size_t i = 0; i + 1 < ends.size(); ++i) {
      if (!joints.at(ends[i]).contains(hashes[i])) continue;
      const auto head = std::span(keys).first(ends[i]);
      known.emplace(hashes[i], std::vector<Key>(head.begin(), head.end()));
    }
    known.emplace(header.own, std::move(keys));
  }
  return out;
}

namespace {

struct Listed {
  fs::path path;
  struct stat info{};
};

bool is_hex(const std::string& text, std::size_t size) {
  return text.size() == size && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

bool is_folder(const fs::path& path) {
  struct stat info{};
  return ::lstat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

// Folders below `path` with a name of `size` hexadecimal digits; links are no folders.
std::vector<fs::path> hex_folders(const fs::path& path, std::size_t size) {
  std::vector<fs::path> folders;
  std::error_code error;
  for (fs::directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
    if (is_hex(it->path().filename().string(), size) && is_folder(it->path())) folders.push_back(it->path());
  }
  return folders;
}

bool same_file(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino && a.st_size == b.st_size &&
         a.st_mtim.tv_sec == b.st_mtim.tv_sec && a.st_mtim.tv_nsec == b.st_mtim.tv_nsec;
}

// Every record below `root`, and the folders that they lie in, inner ones first.
struct Records {
  std::vector<Listed> files;
  std::vector<fs::path> folders;
};
Records list_records(const fs::path& root) {
  Records found;
  if (!is_folder(root)) return found;
  for (const fs::path& fingerprint : hex_folders(root, 24)) {
    for (const fs::path& folder : hex_folders(fingerprint, 2)) {
      found.folders.push_back(folder);
      std::error_code error;
      for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
        const std::string name = it->path().filename().string();
        Listed file{.path = it->path()};
        if (name.size() != 36 || !name.ends_with(".gkv") || !is_hex(name.substr(0, 32), 32) ||
            ::lstat(file.path.c_str(), &file.info) != 0 || !S_ISREG(file.info.st_mode))
          continue;
        found.files.push_back(std::move(file));
      }
    }
    found.folders.push_back(fingerprint);
  }
  return found;
}

}  // namespace

PruneReport prune_records(const fs::path& root, Bytes budget) {
  PruneReport report;
  auto [files, folders] = list_records(root);
  for (const Listed& file : files) report.before += static_cast<Bytes>(file.info.st_size);
  report.after = report.before;
  if (budget == 0) return report;
  std::sort(files.begin(), files.end(), [](const Listed& a, const Listed& b) {
    return std::tuple(a.info.st_mtim.tv_sec, a.info.st_mtim.tv_nsec, a.path) <
           std::tuple(b.info.st_mtim.tv_sec, b.info.st_mtim.tv_nsec, b.path);
  });
  for (const Listed& file : files) {
    if (report.after <= budget) break;
    struct stat info{};
    const fs::path folder = file.path.parent_path();
    if (!is_folder(root) || !is_folder(folder.parent_path()) || !is_folder(folder)) continue;
    if (::lstat(file.path.c_str(), &info) != 0 || !same_file(info, file.info)) continue;
    if (::unlink(file.path.c_str()) != 0) continue;
    report.after -= static_cast<Bytes>(info.st_size);
    ++report.removed;
  }
  if (report.removed > 0) {
    for (const fs::path& folder : folders) ::rmdir(folder.c_str());  // fails unless empty, as wanted
  }
  return report;
}

Result<std::uint64_t> forget_session_records(const fs::path& root, std::uint64_t session) {
  std::uint64_t removed = 0;
  std::optional<Error> stays;
  for (const Listed& file : list_records(root).files) {
    const auto header = read_record_header(file.path);
    if (!header || header->shared || header->pinned || header->tags != std::vector{session}) continue;
    if (::unlink(file.path.c_str()) == 0) {
      ++removed;
    } else if (errno != ENOENT) {
      stays = errno_error("remove " + file.path.string(), errno);
    }
  }
  if (stays) return std::unexpected(std::move(*stays));
  return removed;
}

}  // namespace gezel::kvcache
