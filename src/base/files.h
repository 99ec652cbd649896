// base/files.h
//
// Files as a service needs them: whole or not at all, private unless said otherwise, and hashed in pieces.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"

namespace gezel {

namespace fs = std::filesystem;

// The whole file; larger than `limit` is `too_large`, absent is `not_found`.
Result<std::string> read_file(const fs::path& path, Bytes limit = 64 * kMiB);

// Replaces `path` by `content` through a temporary file beside it: a reader sees the old or the new content,
// a crash leaves the old one. The file gets exactly `mode`, whatever the umask. With `durable`, file and
// folder are synced first.
Result<> write_file_atomic(const fs::path& path, std::string_view content, unsigned mode = 0600,
                           bool durable = true);

// Gives a file exactly `mode`. Returns the mode it had when that was another, nothing when it was right or
// there is no such file.
Result<std::optional<unsigned>> set_file_mode(const fs::path& path, unsigned mode);

// Creates the folder and its missing parents with mode 0700.
Result<> make_private_folder(const fs::path& path);

// Whether this process may list and enter a folder; one that does not exist is no error. Errors: `denied`, or
// `io` (also when it is no folder), "<path>: <reason>".
Result<> check_folder(const fs::path& path);

// What identifies a file's content without reading it.
struct FileStamp {
  Bytes size = 0;
  std::int64_t mtime_ns = 0;
  std::uint64_t inode = 0;
  bool operator==(const FileStamp&) const = default;
};
Result<FileStamp> stamp_file(const fs::path& path);

// SHA-256 of a file, lower-case hexadecimal. `progress` (bytes so far) may return false to cancel.
Result<std::string> sha256_file(const fs::path& path, const std::function<bool(Bytes)>& progress = {});

}  // namespace gezel
