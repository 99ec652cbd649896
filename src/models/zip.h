// models/zip.h
//
// ZIP archives as model bundles use them (PKWARE's APPNOTE 6.3.10, sections 4.3 to 4.5): entries one after
// the other from the first byte on, the central directory, the end records, nothing else. Reading is strict,
// so that no two readers can see different things in an archive: what lies between, before or behind the
// entries, a local header that says something else than the directory, comments and all that bundles have no
// use for (encryption, links, folders, several disks) are errors. Every number is checked before it is used.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/process.h"
#include "base/result.h"

namespace gezel::models::zip {

inline constexpr Bytes kMaxArchiveBytes = Bytes{2} << 40;  // also of a single entry, and of all unpacked
inline constexpr std::size_t kMaxEntries = 16'384;
inline constexpr Bytes kMaxDirectoryBytes = 64 * kMiB;
inline constexpr Bytes kMaxRatio = 200;      // all entries unpacked to packed
inline constexpr Bytes kFreeOfRatio = kKiB;  // packed bytes in all up to which it does not matter

// Where the bytes of an archive are.
class Source {
 public:
  virtual ~Source() = default;
  virtual Bytes size() const = 0;
  // Exactly so many bytes from `offset` on, which lie inside.
  virtual Result<> read(Bytes offset, char* out, std::size_t count) const = 0;
};

class FileSource final : public Source {
 public:
  // A regular file; a link to one is one. Error `unreadable`.
  static Result<FileSource> open(const std::string& path);
  Bytes size() const override { return size_; }
  Result<> read(Bytes offset, char* out, std::size_t count) const override;

 private:
  FileSource(Fd fd, Bytes size) : fd_(std::move(fd)), size_(size) {}
  Fd fd_;
  Bytes size_;
};

struct Entry {
  std::string name;  // a contained path (spec 60 section 1)
  Bytes size = 0, packed_size = 0;
  std::uint32_t crc32 = 0;
  bool deflated = false;
  Bytes offset = 0;  // of its first packed byte
};

// Every entry, in the order of the directory. Names differ, whatever their case. Errors: kind `invalid`, code
// `invalid_bundle`, which names the entry and what is wrong with it; those of the source.
Result<std::vector<Entry>> read_index(const Source& source);

// Unpacks one entry, of which the first `skip` bytes are left out, in pieces of at most a MiB. An error of
// `sink` ends it. Error `invalid_bundle` where the bytes are not what the directory says.
Result<> unpack(const Source& source, const Entry& entry,
                const std::function<Result<>(std::string_view)>& sink, Bytes skip = 0);
// A small entry as a whole.
Result<std::string> unpack_text(const Source& source, const Entry& entry, Bytes limit);

// CRC-32 of more bytes, from 0 on.
std::uint32_t crc32(std::uint32_t before, std::string_view bytes);

// An archive of stored entries that is laid out before a byte of it is written.
class Layout {
 public:
  struct File {
    std::string name;
    Bytes size = 0;
    std::uint32_t crc32 = 0;
  };
  explicit Layout(std::vector<File> files);

  const std::vector<File>& files() const { return files_; }
  std::string header(std::size_t file) const;  // stands before its bytes
  std::string end() const;                     // stands behind the last one
  Bytes total_bytes() const { return directory_at_ + end().size(); }

 private:
  std::vector<File> files_;
  std::vector<Bytes> offsets_;  // of the headers
  Bytes directory_at_ = 0;
};

}  // namespace gezel::models::zip
