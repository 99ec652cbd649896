// models/bundle_test_support.h
//
// Bundles for tests: a good one out of a store, and archives made by hand, byte by byte where they are to be
// wrong.
#pragma once
#include <zlib.h>

#include <cstring>
#include <string>
#include <vector>

#include "base/ids.h"
#include "models/bundle_export.h"
#include "models/test_home.h"
#include "models/zip.h"
#include "models/zip_format.h"

namespace gezel::models::testing {

class TextSource final : public zip::Source {
 public:
  explicit TextSource(std::string bytes) : bytes_(std::move(bytes)) {}
  Bytes size() const override { return bytes_.size(); }
  Result<> read(Bytes offset, char* out, std::size_t count) const override {
    if (offset > bytes_.size() || bytes_.size() - offset < count) std::abort();  // readers look first
    std::memcpy(out, bytes_.data() + offset, count);
    return {};
  }

 private:
  std::string bytes_;
};

inline std::string deflated(std::string_view text) {
  z_stream stream{};
  ::deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  std::string out(::deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  ::deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  ::deflateEnd(&stream);
  return out;
}

// One entry as a careless or hostile writer might write it.
struct RawEntry {
  std::string name = {}, content = {};
  bool deflate = false;
  unsigned flags = zip::kUtf8Flag, method_shown = 99;  // 99: the right one
  std::uint32_t mode = 0100644;
  std::string local_name = {};                   // "": as `name`
  std::optional<std::uint32_t> crc32 = {};       // what is claimed
  std::optional<std::uint32_t> size_shown = {};  // of the unpacked content
  std::string gap = {};                          // bytes behind it
};

// A plain archive, 32-bit.
inline std::string raw_archive(const std::vector<RawEntry>& entries, std::string_view before = {},
                               std::string_view comment = {}) {
  using zip::put;
  std::string out(before), directory;
  for (const auto& entry : entries) {
    const std::string packed = entry.deflate ? deflated(entry.content) : entry.content;
    const unsigned method = entry.method_shown != 99 ? entry.method_shown
                            : entry.deflate          ? zip::kDeflated
                                                     : zip::kStored;
    const std::uint32_t crc = entry.crc32.value_or(zip::crc32(0, entry.content));
    const std::uint32_t size = entry.size_shown.value_or(static_cast<std::uint32_t>(entry.content.size()));
    const std::string local_name = entry.local_name.empty() ? entry.name : entry.local_name;
    const std::size_t at = out.size();
    const auto common = [&](std::string& to, std::size_t name_size) {
      put(to, 20, 2);
      put(to, entry.flags, 2);
      put(to, method, 2);
      put(to, 0, 4);
      put(to, crc, 4);
      put(to, packed.size(), 4);
      put(to, size, 4);
      put(to, name_size, 2);
      put(to, 0, 2);
    };
    put(out, zip::kLocal, 4);
    common(out, local_name.size());
    out += local_name + packed + entry.gap;
    put(directory, zip::kListed, 4);
    put(directory, zip::kMadeByUnix << 8 | 20, 2);
    common(directory, entry.name.size());
    put(directory, 0, 2);
    put(directory, 0, 2);
    put(directory, 0, 2);
    put(directory, std::uint64_t{entry.mode} << 16, 4);
    put(directory, at, 4);
    directory += entry.name;
  }
  const std::size_t at = out.size();
  out += directory;
  put(out, zip::kEnd, 4);
  put(out, 0, 4);
  put(out, entries.size(), 2);
  put(out, entries.size(), 2);
  put(out, directory.size(), 4);
  put(out, at, 4);
  put(out, comment.size(), 2);
  return out + std::string(comment);
}

// The parts of a good bundle, to be changed before it is written.
struct RawBundle {
  BundleManifest manifest;
  std::vector<RawEntry> entries;  // without the root manifest

  static RawBundle of(const std::string& content = tiny_model(), std::string id = "notes") {
    RawBundle out;
    out.manifest.id = id;
    out.manifest.name = "Notes";
    out.manifest.created_at = "2026-08-01T00:00:00.000Z";
    out.manifest.created_by = "gezel-inference/test";
    out.manifest.approx_size_bytes = content.size();
    out.add("model/notes.gguf", content, BundleRole::model);
    out.add("manifests/installed.json",
            to_json(json::object{{"id", id}, {"name", "Notes"}, {"weightsFilename", "notes.gguf"}}),
            BundleRole::installed_manifest);
    out.add("manifests/catalog.json", to_json(json::object{{"id", id}}), BundleRole::catalog_manifest);
    return out;
  }
  void add(const std::string& path, const std::string& content, BundleRole role) {
    manifest.files.push_back({path, content.size(), sha256_hex(content), role});
    entries.push_back({.name = path, .content = content});
  }
  std::string root() const { return to_json(bundle_manifest_json(manifest)); }
  std::string bytes() const { return bytes_with(root()); }
  std::string bytes_with(const std::string& root_text) const {
    std::vector<RawEntry> all{{.name = "manifest.json", .content = root_text}};
    all.insert(all.end(), entries.begin(), entries.end());
    return raw_archive(all);
  }
};

inline std::string read_all(BundleExport& archive) {
  std::string out;
  while (true) {
    auto piece = archive.next();
    EXPECT_TRUE(piece) << piece.error().message;
    if (!piece || piece->empty()) return out;
    out += *piece;
  }
}

}  // namespace gezel::models::testing
