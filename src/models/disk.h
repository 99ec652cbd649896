// models/disk.h
//
// What publishing a model needs of the file system: copies that are hashed on the way, durability of a
// folder's entries, and paths that no link leads astray.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/bytes.h"
#include "base/files.h"
#include "base/result.h"

namespace gezel::models {

// Copies `source` to the new file `target` (mode 0600), synced, and returns the SHA-256 of what was read.
// `progress` gets the bytes copied so far and may return false to cancel. A full disk is `insufficient_disk`.
// On failure no `target` is left.
Result<std::string> copy_and_hash(const fs::path& source, const fs::path& target,
                                  const std::function<bool(Bytes)>& progress);

// Makes renames and new entries inside `folder` survive a power failure.
Result<> sync_folder(const fs::path& folder);

// Gives the file `from` the name `to`, which must not be taken: nothing is ever replaced, also where somebody
// takes the name meanwhile, unless the file system has no hard links. Errors: `file_exists`, `io_error`.
Result<> rename_new(const fs::path& from, const fs::path& to);

// Space for an unprivileged user on the file system of the nearest existing ancestor; nothing when it cannot
// be measured.
std::optional<Bytes> free_space(const fs::path& path);

// Whether a hard link or a rename between the two can work. False when either cannot be looked at.
bool same_file_system(const fs::path& a, const fs::path& b);

// The number of the file system that a file is on.
Result<std::uint64_t> device_of(const fs::path& path);

// Spec 60 section 7 rule 3: every existing component of `target` below `base` must be a real folder, no link,
// and `target` must lie inside `base`. Checked before anything is created, replaced or removed there. Error
// `unsafe_path`.
Result<> check_real_folders(const fs::path& base, const fs::path& target);

}  // namespace gezel::models
