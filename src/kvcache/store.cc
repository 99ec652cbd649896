#include "kvcache/store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "base/process.h"
#include "kvcache/fingerprint.h"

namespace gezel::kvcache {
namespace {

using namespace std::chrono_literals;

constexpr Bytes kSpareBytes = kGiB;
constexpr auto kRetryAfter = 60s;
constexpr auto kTemporaryAge = 1h;
constexpr std::size_t kFirstRead = 64 * kKiB;
constexpr std::string_view kTemporaryPrefix = ".tmp-";

std::optional<Bytes> free_bytes_of(const fs::path& path) {
  struct statvfs info{};
  if (::statvfs(path.c_str(), &info) != 0) return std::nullopt;
  return static_cast<Bytes>(info.f_bavail) * info.f_frsize;
}

bool is_hex(std::string_view text, std::size_t size) {
  return text.size() == size && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

bool is_record_name(const std::string& name) {
  return name.ends_with(".gkv") && is_hex(std::string_view(name).substr(0, name.size() - 4), 32);
}

Result<> write_at(int fd, std::uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return std::unexpected(errno_error("write a cache record", errno));
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    offset += static_cast<std::uint64_t>(written);
  }
  return {};
}

// Exactly `size` bytes at `offset`; fewer are an error.
Result<Buffer> read_at(int fd, std::uint64_t offset, std::uint64_t size) {
  Buffer bytes(static_cast<std::size_t>(size));
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got =
        ::pread(fd, bytes.data() + done, bytes.size() - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return std::unexpected(errno_error("read a cache record", errno));
    if (got == 0) return fail(ErrorKind::corrupt, "record-invalid", "The cache record is cut short.");
    done += static_cast<std::size_t>(got);
  }
  return bytes;
}

struct OpenRecord {
  Fd fd;
  Bytes bytes = 0;
  WallTime modified{};
};

// Not through a link, and only a regular file.
Result<OpenRecord> open_record(const fs::path& path, int access = O_RDONLY) {
  OpenRecord record{.fd = Fd(::open(path.c_str(), access | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK))};
  struct stat info{};
  if (!record.fd || ::fstat(record.fd.get(), &info) != 0)
    return std::unexpected(errno_error(fmt::format("open {}", path.string()), errno));
  if (!S_ISREG(info.st_mode))
    return fail(ErrorKind::io, "io_error", fmt::format("{} is not a regular file", path.string()));
  record.bytes = static_cast<Bytes>(info.st_size);
  record.modified = WallTime(std::chrono::duration_cast<WallTime::duration>(
      std::chrono::seconds(info.st_mtim.tv_sec) + std::chrono::nanoseconds(info.st_mtim.tv_nsec)));
  return record;
}

// The bytes of a header. Bounded by the file's own size: what it promises beyond that is damage.
Result<Buffer> read_header_bytes(const OpenRecord& record) {
  GEZEL_TRY(auto bytes, read_at(record.fd.get(), 0, std::min<Bytes>(record.bytes, kFirstRead)));
  GEZEL_TRY(const std::uint32_t size, record_header_bytes(bytes));
  if (size > record.bytes)
    return fail(ErrorKind::corrupt, "record-invalid", "The cache record is cut short.");
  if (size > bytes.size()) {
    GEZEL_TRY(bytes, read_at(record.fd.get(), 0, size));
  }
  bytes.resize(size);
  return bytes;
}

Result<RecordHeader> read_header(const OpenRecord& record) {
  GEZEL_TRY(const Buffer bytes, read_header_bytes(record));
  GEZEL_TRY(RecordHeader header, parse_record_header(bytes));
  if (header.file_bytes() != record.bytes)
    return fail(ErrorKind::corrupt, "record-invalid", "The cache record does not have the size it says.");
  return header;
}

}  // namespace

Result<RecordHeader> read_record_header(const fs::path& path) {
  GEZEL_TRY(const OpenRecord record, open_record(path));
  return read_header(record);
}

Store::Store(StoreOptions options, const Clock& clock)
    : options_(std::move(options)),
      clock_(clock),
      folder_(options_.folder.empty() ? options_.root / folder_name(options_.fingerprint) : options_.folder) {
  if (!options_.free_bytes) options_.free_bytes = free_bytes_of;
  std::error_code error;
  const fs::directory_options skip = fs::directory_options::skip_permission_denied;
  for (fs::recursive_directory_iterator it(folder_, skip, error), end; !error && it != end;
       it.increment(error)) {
    if (it.depth() > 1) it.disable_recursion_pending();
    if (!it->path().filename().string().starts_with(kTemporaryPrefix)) continue;
    struct stat info{};
    if (::lstat(it->path().c_str(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
    const WallTime modified{std::chrono::seconds(info.st_mtim.tv_sec)};
    if (clock_.wall_now() - modified > kTemporaryAge) ::unlink(it->path().c_str());
  }
}

fs::path Store::file_of(const Digest& own) const {
  const std::string name = hex(own);
  return folder_ / name.substr(0, 2) / (name.substr(0, 32) + ".gkv");
}

bool Store::writable() const {
  return clock_.now() >= retry_at_;
}

bool Store::write(EncodedRecord record) {
  if (!writable()) return false;
  const auto failed = [&](std::uint64_t& counter, std::string what) {
    ++counter;
    trouble_ = std::move(what);
    retry_at_ = clock_.now() + kRetryAfter;
    return false;
  };
  const fs::path path = file_of(record.header.own);
  if (auto made = make_private_folder(path.parent_path()); !made)
    return failed(statistics_.write_errors, made.error().message);
  const std::optional<Bytes> free = options_.free_bytes(folder_);
  if (!free || *free < record.bytes() + kSpareBytes) {
    return failed(
        statistics_.no_space,
        fmt::format("{} has {} free; a record of {} needs 1 GiB beside it", folder_.string(),
                    free ? format_bytes(*free) : "an unknown amount", format_bytes(record.bytes())));
  }
  if (auto written = write_file(record, path); !written)
    return failed(statistics_.write_errors, written.error().message);
  ++statistics_.written;
  return true;
}

Result<> Store::write_file(EncodedRecord& record, const fs::path& path) {
  const fs::path folder = path.parent_path();
  const fs::path temporary = folder / fmt::format("{}{}-{}", kTemporaryPrefix, ::getpid(), temporaries_++);
  std::error_code ignored;
  const bool first_in_folder = fs::is_empty(folder, ignored);
  Fd fd(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd) return std::unexpected(errno_error(fmt::format("create {}", temporary.string()), errno));
  Result<> result = write_record(record, [&](std::uint64_t offset, std::span<const std::byte> bytes) {
    return write_at(fd.get(), offset, bytes);
  });
  if (result && ::fdatasync(fd.get()) != 0)
    result = std::unexpected(errno_error("sync a cache record", errno));
  fd.reset();
  if (result && ::rename(temporary.c_str(), path.c_str()) != 0)
    result = std::unexpected(errno_error(fmt::format("rename to {}", path.string()), errno));
  if (!result) {
    ::unlink(temporary.c_str());
    return result;
  }
  if (first_in_folder) {
    const Fd dir(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (dir) ::fsync(dir.get());
  }
  return {};
}

void Store::discard(const fs::path& path) {
  ++statistics_.corrupt;
  ::unlink(path.c_str());
}

std::optional<LoadedRecord> Store::load(const Digest& own, std::span<const Key> keys,
                                        const ImageLayout& layout) {
  const fs::path path = file_of(own);
  const auto trouble = [&](const Error& error) {
    trouble_ = error.message;
    if (error.kind == ErrorKind::corrupt) {
      discard(path);
    } else if (::access(path.c_str(), F_OK) != 0) {
      ++statistics_.vanished;
    } else {
      ++statistics_.read_errors;
    }
  };
  auto record = open_record(path);
  if (!record) {
    trouble(record.error());
    return std::nullopt;
  }
  auto header = read_header(*record);
  if (!header) {
    trouble(header.error());
    return std::nullopt;
  }
  if (header->fingerprint != options_.fingerprint || header->own != own ||
      common_prefix(keys, header->keys) != keys.size())
    return std::nullopt;
  LoadedRecord loaded;
  for (std::size_t i = 0; i < header->parts.size(); ++i) {
    const RecordHeader::PartEntry& part = header->parts[i];
    // Read only what has the right size: a header may be old and a file large.
    if (part.tokens > 0 && part.bytes != part.tokens * layout.rows.token_bytes()) {
      trouble(Error{ErrorKind::corrupt, "record-invalid", "The cache record has rows of another size.", ""});
      return loaded;
    }
    auto bytes = read_at(record->fd.get(), header->offset(i), part.bytes);
    if (!bytes) {
      trouble(bytes.error());
      return loaded;
    }
    if (part.tokens == 0) {
      auto checkpoint = decode_checkpoint(*header, layout, std::move(*bytes));
      if (!checkpoint) {
        trouble(checkpoint.error());
        return loaded;
      }
      loaded.checkpoint = std::move(*checkpoint);
    } else {
      auto rows = decode_part(*header, i, layout.rows, std::move(*bytes));
      if (!rows) {
        trouble(rows.error());
        return loaded;
      }
      loaded.parts.push_back(std::move(*rows));
    }
  }
  loaded.complete = true;
  ++statistics_.loaded;
  return loaded;
}

bool Store::remove(const Digest& own) {
  return ::unlink(file_of(own).c_str()) == 0;
}

void Store::touch(std::span<const Digest> records) {
  auto time = std::chrono::nanoseconds(clock_.wall_now().time_since_epoch());
  for (const Digest& own : records) {
    const auto record = open_record(file_of(own));
    if (!record) continue;
    const auto whole = std::chrono::floor<std::chrono::seconds>(time);
    const timespec at{.tv_sec = whole.count(), .tv_nsec = (time - whole).count()};
    const timespec times[2] = {at, at};
    ::futimens(record->fd.get(), times);  // by the open file: a sandbox may forbid it by name
    time += 1us;
  }
}

bool Store::set_pinned(const Digest& own, bool pinned) {
  const auto change = [&]() -> Result<> {
    GEZEL_TRY(const OpenRecord record, open_record(file_of(own), O_RDWR));
    GEZEL_TRY(const Buffer header, read_header_bytes(record));
    GEZEL_TRY(const PinChange change, change_pin(header, pinned));
    GEZEL_CHECK(write_at(record.fd.get(), change.offset, change.bytes));
    if (::fdatasync(record.fd.get()) != 0) return std::unexpected(errno_error("sync a cache record", errno));
    return {};
  };
  const auto changed = change();
  if (!changed) {
    ++statistics_.write_errors;
    trouble_ = changed.error().message;
  }
  return changed.has_value();
}

void Store::list_files() {
  listed_ = true;
  std::error_code error;
  for (fs::directory_iterator it(folder_, error), end; !error && it != end; it.increment(error)) {
    if (!is_hex(it->path().filename().string(), 2) || it->is_symlink()) continue;
    std::error_code inner;
    for (fs::directory_iterator file(it->path(), inner), last; !inner && file != last;
         file.increment(inner)) {
      if (is_record_name(file->path().filename().string())) to_index_.push_back(file->path());
    }
  }
}

std::optional<IndexEntry> Store::next_of_index() {
  if (!listed_) list_files();
  while (!to_index_.empty()) {
    const fs::path path = std::move(to_index_.back());
    to_index_.pop_back();
    auto record = open_record(path);
    if (!record) continue;
    auto header = read_header(*record);
    if (!header) {
      trouble_ = header.error().message;
      if (header.error().kind == ErrorKind::corrupt) {
        discard(path);
      } else {
        ++statistics_.read_errors;
      }
      continue;
    }
    if (header->fingerprint != options_.fingerprint || file_of(header->own) != path) continue;
    return IndexEntry{std::move(*header), record->bytes, record->modified};
  }
  return std::nullopt;
}

}  // namespace gezel::kvcache
