// The end of the archive says where the directory is, the directory says where the entries are, and then
// every local header must stand exactly where the entry before it ended.

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <numeric>
#include <optional>
#include <set>

#include "base/utf8.h"
#include "catalog/grammar.h"
#include "models/zip.h"
#include "models/zip_format.h"

namespace gezel::models::zip {
namespace {

constexpr std::size_t kPiece = kMiB;

std::unexpected<Error> bad(std::string message) {
  return fail(ErrorKind::invalid, "invalid_bundle", "the archive " + std::move(message));
}
std::unexpected<Error> bad_entry(std::string_view name, std::string_view what) {
  return bad(fmt::format("has an entry \"{}\" that {}", sanitize_utf8(name.substr(0, 200)), what));
}

Result<std::string> read_text(const Source& source, Bytes offset, std::size_t count) {
  std::string out(count, '\0');
  GEZEL_CHECK(source.read(offset, out.data(), count));
  return out;
}

// What the end of the archive says.
struct End {
  Bytes entries = 0, directory_size = 0, directory_at = 0;
  Bytes begins_at = 0;  // the first of the end records
};

Result<End> read_end64(const Source& source, const End& plain) {
  const auto missing = [] {
    return bad("needs the end record of large archives (ZIP64), which is not there");
  };
  if (plain.begins_at < kLocator64Size + kEnd64Size) return missing();
  GEZEL_TRY(const std::string locator, read_text(source, plain.begins_at - kLocator64Size, kLocator64Size));
  if (u32_at(locator, 0) != kLocator64) return missing();
  const Bytes at = u64_at(locator, 8);
  if (u32_at(locator, 4) != 0 || u32_at(locator, 16) != 1)
    return bad("has several parts; one file is taken only");
  // It ends where the locator begins, and is of the first version, which has no more than this.
  if (at != plain.begins_at - kLocator64Size - kEnd64Size) return missing();
  GEZEL_TRY(const std::string record, read_text(source, at, kEnd64Size));
  if (u32_at(record, 0) != kEnd64 || u64_at(record, 4) != kEnd64Size - 12) return missing();
  if (u32_at(record, 16) != 0 || u32_at(record, 20) != 0 || u64_at(record, 24) != u64_at(record, 32))
    return bad("has several parts; one file is taken only");
  const End out{u64_at(record, 32), u64_at(record, 40), u64_at(record, 48), at};
  const auto agrees = [](Bytes small, Bytes large, Bytes most) { return small == most || small == large; };
  if (!agrees(plain.entries, out.entries, kMax16) ||
      !agrees(plain.directory_size, out.directory_size, kMax32) ||
      !agrees(plain.directory_at, out.directory_at, kMax32))
    return bad("has two end records that disagree");
  return out;
}

Result<End> read_end(const Source& source) {
  if (source.size() > kMaxArchiveBytes)
    return fail(
        ErrorKind::too_large, "bundle_too_large",
        fmt::format("the archive has {} bytes; at most {} are taken", source.size(), kMaxArchiveBytes));
  if (source.size() < kEndSize) return bad("is too short to be one, or was cut off");
  const Bytes at = source.size() - kEndSize;
  GEZEL_TRY(const std::string record, read_text(source, at, kEndSize));
  if (u32_at(record, 0) != kEnd || u16_at(record, 20) != 0)
    return bad(
        "does not end as a ZIP archive without a comment does; it was cut off, or something follows it");
  if (u16_at(record, 4) != 0 || u16_at(record, 6) != 0 || u16_at(record, 8) != u16_at(record, 10))
    return bad("has several parts; one file is taken only");
  End out{u16_at(record, 10), u32_at(record, 12), u32_at(record, 16), at};
  if (out.entries == kMax16 || out.directory_size == kMax32 || out.directory_at == kMax32) {
    GEZEL_TRY(out, read_end64(source, out));
  }
  if (out.entries > kMaxEntries)
    return bad(fmt::format("has {} entries; at most {} are taken", out.entries, kMaxEntries));
  if (out.directory_size > kMaxDirectoryBytes || out.directory_at > out.begins_at ||
      out.begins_at - out.directory_at != out.directory_size)
    return bad("has a directory that does not lie between the entries and its end");
  return out;
}

// The 64-bit numbers of an entry, for those of its fields that are full.
class Extra64 {
 public:
  // Nothing: a field in `extra` is longer than the rest of it.
  static std::optional<Extra64> find(std::string_view extra) {
    Extra64 out;
    while (!extra.empty()) {
      if (extra.size() < 4 || extra.size() - 4 < u16_at(extra, 2)) return std::nullopt;
      if (u16_at(extra, 0) == kExtra64) out.rest_ = extra.substr(4, u16_at(extra, 2));
      extra.remove_prefix(4 + u16_at(extra, 2));
    }
    return out;
  }
  bool take(Bytes& number) {
    if (number != kMax32) return true;
    if (rest_.size() < 8) return false;
    number = u64_at(rest_, 0);
    rest_.remove_prefix(8);
    return true;
  }

 private:
  std::string_view rest_;
};

// An entry as the directory has it, and what its local header must repeat.
struct Listed {
  Entry entry;
  unsigned flags = 0, method = 0;
  Bytes header_at = 0;
};

Result<> check_attributes(const Listed& listed, unsigned made_by, std::uint32_t attributes) {
  const std::string& name = listed.entry.name;
  if (listed.flags & kEncryptedFlags) return bad_entry(name, "is encrypted");
  if (listed.flags & ~(kKnownFlags)) return bad_entry(name, "uses a feature that bundles do not have");
  if (listed.method != kStored && listed.method != kDeflated)
    return bad_entry(name, fmt::format("is packed by method {}; only 0 (stored) and 8 (deflated) are read",
                                       listed.method));
  const unsigned mode = made_by >> 8 == kMadeByUnix ? attributes >> 16 : 0;
  const unsigned type = mode & S_IFMT;
  if (type == S_IFLNK) return bad_entry(name, "is a link");
  if (name.ends_with('/') || type == S_IFDIR || (attributes & kDosFolder) != 0)
    return bad_entry(name, "is a folder; only files are listed in a bundle");
  if (type != 0 && type != S_IFREG) return bad_entry(name, "is no regular file");
  return {};
}

Result<> check_name(const std::string& name) {
  if (find_invalid_utf8(name)) return bad_entry(name, "has a name that is not valid UTF-8");
  // Folders get a message of their own.
  std::string_view path = name;
  if (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  if (!catalog::is_contained_path(path))
    return bad_entry(name,
                     "has an unsafe path; it must be relative, with '/' between its parts, at most 1024 "
                     "bytes long, without backslash, control characters and empty, \".\" or \"..\" parts");
  return {};
}

// Takes one record off the directory.
Result<Listed> take_listed(std::string_view& directory) {
  const auto cut = [] { return bad("has a directory that ends in mid-entry"); };
  if (directory.size() < kListedSize) return cut();
  const std::string_view head = directory;
  if (u32_at(head, 0) != kListed) return bad("has a directory with something in it that is no entry");
  const std::size_t name_size = u16_at(head, 28), extra_size = u16_at(head, 30), note_size = u16_at(head, 32);
  if (directory.size() - kListedSize < name_size + extra_size + note_size) return cut();
  Listed out;
  Entry& entry = out.entry;
  entry.name = head.substr(kListedSize, name_size);
  const auto extra = Extra64::find(head.substr(kListedSize + name_size, extra_size));
  directory.remove_prefix(kListedSize + name_size + extra_size + note_size);
  out.flags = u16_at(head, 8);
  out.method = u16_at(head, 10);
  entry.deflated = out.method == kDeflated;
  entry.crc32 = u32_at(head, 16);
  entry.packed_size = u32_at(head, 20);
  entry.size = u32_at(head, 24);
  out.header_at = u32_at(head, 42);
  GEZEL_CHECK(check_name(entry.name));
  GEZEL_CHECK(check_attributes(out, u16_at(head, 4), u32_at(head, 38)));
  if (u16_at(head, 34) != 0) return bad_entry(entry.name, "lies in another part of the archive");
  auto large = extra;
  if (!large || !large->take(entry.size) || !large->take(entry.packed_size) || !large->take(out.header_at))
    return bad_entry(entry.name, "lacks its 64-bit sizes");
  if (const Bytes most = std::max(entry.size, entry.packed_size); most > kMaxArchiveBytes)
    return bad_entry(entry.name, fmt::format("has {} bytes; at most {} are taken", most, kMaxArchiveBytes));
  if (!entry.deflated && entry.size != entry.packed_size)
    return bad_entry(entry.name, "is stored but has two different sizes");
  return out;
}

// Behind the bytes of an entry whose writer did not know their sum and number before (APPNOTE 4.3.9).
Result<> check_descriptor(const Source& source, const Listed& listed, Bytes at, Bytes size) {
  const Entry& entry = listed.entry;
  const bool streamed = (listed.flags & kStreamedFlag) != 0;
  if (!streamed && size == 0) return {};
  const bool with_mark = size == 16 || size == 24, wide = size == 20 || size == 24;
  if (!streamed || !(size == 12 || with_mark || wide))
    return bad_entry(entry.name, "is not followed by the next one, or overlaps it");
  GEZEL_TRY(const std::string text, read_text(source, at, size));
  const std::size_t from = with_mark ? 4 : 0;
  const Bytes packed = wide ? u64_at(text, from + 4) : u32_at(text, from + 4);
  const Bytes whole = wide ? u64_at(text, from + 12) : u32_at(text, from + 8);
  if ((with_mark && u32_at(text, 0) != kDescriptor) || u32_at(text, from) != entry.crc32 ||
      packed != entry.packed_size || whole != entry.size)
    return bad_entry(entry.name, "is followed by other figures than the directory has for it");
  return {};
}

// The local header, which must say the same; finds where the bytes begin. `end`: where the next thing is.
Result<> check_local(const Source& source, Listed& listed, Bytes end) {
  Entry& entry = listed.entry;
  const auto outside = [&] { return bad_entry(entry.name, "does not lie where the directory says"); };
  if (listed.header_at > end || end - listed.header_at < kLocalSize) return outside();
  GEZEL_TRY(const std::string head, read_text(source, listed.header_at, kLocalSize));
  if (u32_at(head, 0) != kLocal) return outside();
  const std::size_t name_size = u16_at(head, 26), extra_size = u16_at(head, 28);
  const Bytes data_at = listed.header_at + kLocalSize + name_size + extra_size;
  if (data_at > end || end - data_at < entry.packed_size)
    return bad_entry(entry.name, "is cut off, or overlaps the next one");
  GEZEL_TRY(const std::string rest, read_text(source, listed.header_at + kLocalSize, name_size + extra_size));
  Bytes packed = u32_at(head, 18), size = u32_at(head, 22);
  auto extra = Extra64::find(std::string_view(rest).substr(name_size));
  const bool right_extra = extra && extra->take(size) && extra->take(packed);
  // A writer that learned the figures later has zeros here, or what it knew.
  const bool streamed = (listed.flags & kStreamedFlag) != 0;
  const auto same = [&](Bytes here, Bytes listed_there) {
    return here == listed_there || (streamed && here == 0);
  };
  if (!right_extra || std::string_view(rest).substr(0, name_size) != entry.name ||
      u16_at(head, 6) != listed.flags || u16_at(head, 8) != listed.method ||
      !same(u32_at(head, 14), entry.crc32) || !same(packed, entry.packed_size) || !same(size, entry.size))
    return bad_entry(entry.name, "says something else of itself than the directory does");
  entry.offset = data_at;
  const Bytes data_end = data_at + entry.packed_size;
  return check_descriptor(source, listed, data_end, end - data_end);
}

Result<> check_ratio(const std::vector<Listed>& listed) {
  Bytes size = 0, packed = 0;
  for (const auto& each : listed) {
    size += each.entry.size;  // 16,384 times 2 TiB is far below 2^64
    packed += each.entry.packed_size;
  }
  if (size > kMaxArchiveBytes)
    return bad(fmt::format("unpacks to {} bytes; at most {} are taken", size, kMaxArchiveBytes));
  if (packed > kFreeOfRatio && size > packed * kMaxRatio)
    return bad(fmt::format("unpacks {} bytes to {}, more than {} to 1", packed, size, kMaxRatio));
  return {};
}

// The end of zlib's state.
struct InflateEnd {
  void operator()(z_stream* stream) const { ::inflateEnd(stream); }
};

// Unpacked bytes on their way: what they must add up to.
class Check {
 public:
  Check(const Entry& entry, const std::function<Result<>(std::string_view)>& sink, Bytes skip)
      : entry_(entry), sink_(sink), skip_(skip) {}
  Result<> take(std::string_view bytes) {
    if (bytes.size() > entry_.size - seen_) return bad_entry(entry_.name, "unpacks to more than it says");
    seen_ += bytes.size();
    crc_ = crc32(crc_, bytes);
    const std::size_t left_out = std::min<Bytes>(skip_, bytes.size());
    skip_ -= left_out;
    bytes.remove_prefix(left_out);
    return bytes.empty() ? Result<>() : sink_(bytes);
  }
  Result<> end() const {
    if (seen_ != entry_.size) return bad_entry(entry_.name, "unpacks to less than it says");
    if (crc_ != entry_.crc32) return bad_entry(entry_.name, "is damaged: its CRC-32 is another one");
    return {};
  }

 private:
  const Entry& entry_;
  const std::function<Result<>(std::string_view)>& sink_;
  Bytes skip_, seen_ = 0;
  std::uint32_t crc_ = 0;
};

Result<> unpack_stored(const Source& source, const Entry& entry, Check& check) {
  std::string piece;
  for (Bytes done = 0; done < entry.size;) {
    piece.resize(std::min<Bytes>(kPiece, entry.size - done));
    GEZEL_CHECK(source.read(entry.offset + done, piece.data(), piece.size()));
    GEZEL_CHECK(check.take(piece));
    done += piece.size();
  }
  return {};
}

Result<> unpack_deflated(const Source& source, const Entry& entry, Check& check) {
  z_stream stream{};
  if (::inflateInit2(&stream, -MAX_WBITS) != Z_OK)
    return fail(ErrorKind::internal, "out_of_memory", "an archive cannot be unpacked: out of memory");
  const std::unique_ptr<z_stream, InflateEnd> guard(&stream);
  std::string packed, piece(kPiece, '\0');
  Bytes read = 0;
  int status = Z_OK;
  while (status != Z_STREAM_END) {
    if (stream.avail_in == 0 && read < entry.packed_size) {
      packed.resize(std::min<Bytes>(kPiece, entry.packed_size - read));
      GEZEL_CHECK(source.read(entry.offset + read, packed.data(), packed.size()));
      read += packed.size();
      stream.next_in = reinterpret_cast<Bytef*>(packed.data());
      stream.avail_in = static_cast<uInt>(packed.size());
    }
    stream.next_out = reinterpret_cast<Bytef*>(piece.data());
    stream.avail_out = static_cast<uInt>(piece.size());
    status = ::inflate(&stream, Z_NO_FLUSH);
    if (status == Z_BUF_ERROR) return bad_entry(entry.name, "ends in mid-stream");
    if (status != Z_OK && status != Z_STREAM_END)
      return bad_entry(entry.name, "cannot be unpacked: it is damaged");
    GEZEL_CHECK(check.take(std::string_view(piece).substr(0, piece.size() - stream.avail_out)));
  }
  if (stream.avail_in > 0 || read < entry.packed_size)
    return bad_entry(entry.name, "has bytes behind the end of its stream");
  return {};
}

}  // namespace

Result<FileSource> FileSource::open(const std::string& path) {
  const auto unreadable = [&](std::string_view why) {
    return fail(ErrorKind::invalid, "unreadable", fmt::format("{} cannot be read: {}", path, why), "path");
  };
  // Without waiting for somebody who writes to it, should it be no file.
  Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return unreadable(errno_error("open", errno).message);
  struct stat status{};
  if (::fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode)) return unreadable("it is no regular file");
  return FileSource(std::move(fd), static_cast<Bytes>(status.st_size));
}

Result<> FileSource::read(Bytes offset, char* out, std::size_t count) const {
  while (count > 0) {
    const ssize_t got = ::pread(fd_.get(), out, count, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return std::unexpected(errno_error("read the archive", errno));
    if (got == 0) return bad("became shorter while it was read");
    offset += static_cast<Bytes>(got);
    out += got;
    count -= static_cast<std::size_t>(got);
  }
  return {};
}

Result<std::vector<Entry>> read_index(const Source& source) {
  GEZEL_TRY(const End end, read_end(source));
  GEZEL_TRY(const std::string text, read_text(source, end.directory_at, end.directory_size));
  std::string_view directory = text;
  std::vector<Listed> listed;
  std::set<std::string> names;
  while (listed.size() < end.entries) {
    GEZEL_TRY(Listed next, take_listed(directory));
    if (!names.insert(catalog::lowered(next.entry.name)).second)
      return bad_entry(next.entry.name, "is there twice; case does not tell names apart");
    listed.push_back(std::move(next));
  }
  if (!directory.empty()) return bad("has a directory with more in it than its entries");
  GEZEL_CHECK(check_ratio(listed));
  std::vector<std::size_t> by_place(listed.size());
  std::iota(by_place.begin(), by_place.end(), 0U);
  std::ranges::sort(by_place, {}, [&](std::size_t i) { return listed[i].header_at; });
  if (listed.empty() ? end.directory_at != 0 : listed[by_place.front()].header_at != 0)
    return bad("has something before its first entry");
  for (std::size_t i = 0; i < by_place.size(); ++i) {
    const Bytes next = i + 1 < by_place.size() ? std::min(listed[by_place[i + 1]].header_at, end.directory_at)
                                               : end.directory_at;
    GEZEL_CHECK(check_local(source, listed[by_place[i]], next));
  }
  std::vector<Entry> out;
  for (auto& each : listed) out.push_back(std::move(each.entry));
  return out;
}

Result<> unpack(const Source& source, const Entry& entry,
                const std::function<Result<>(std::string_view)>& sink, Bytes skip) {
  Check check(entry, sink, skip);
  if (entry.deflated) {
    GEZEL_CHECK(unpack_deflated(source, entry, check));
  } else {
    GEZEL_CHECK(unpack_stored(source, entry, check));
  }
  return check.end();
}

Result<std::string> unpack_text(const Source& source, const Entry& entry, Bytes limit) {
  if (entry.size > limit)
    return bad_entry(entry.name, fmt::format("has {} bytes; at most {} are taken", entry.size, limit));
  std::string out;
  const std::function<Result<>(std::string_view)> append = [&](std::string_view piece) -> Result<> {
    out += piece;
    return {};
  };
  GEZEL_CHECK(unpack(source, entry, append));
  return out;
}

std::uint32_t crc32(std::uint32_t before, std::string_view bytes) {
  uLong out = before;
  while (!bytes.empty()) {
    const std::string_view piece = bytes.substr(0, kPiece);
    out = ::crc32(out, reinterpret_cast<const Bytef*>(piece.data()), static_cast<uInt>(piece.size()));
    bytes.remove_prefix(piece.size());
  }
  return static_cast<std::uint32_t>(out);
}

}  // namespace gezel::models::zip
