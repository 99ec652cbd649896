#include "models/bundle_export.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/ids.h"
#include "base/process.h"
#include "downloads/sha256.h"
#include "models/manifest.h"

namespace gezel::models {
namespace {

constexpr std::size_t kPiece = kMiB;

std::unexpected<Error> unusable(const fs::path& file, std::string_view why) {
  return fail(ErrorKind::corrupt, "model-invalid",
              fmt::format("the file {} of the model {}", file.filename().string(), why), "model");
}
std::unexpected<Error> changing(const fs::path& file) {
  return fail(ErrorKind::conflict, "model_changing",
              fmt::format("the file {} changed while it was exported; try again", file.filename().string()),
              "model");
}

FileStamp stamp_of(const struct stat& status) {
#if defined(__APPLE__)
  const auto& time = status.st_mtimespec;
#else
  const auto& time = status.st_mtim;
#endif
  return {static_cast<Bytes>(status.st_size),
          static_cast<std::int64_t>(time.tv_sec) * 1'000'000'000 + static_cast<std::int64_t>(time.tv_nsec),
          static_cast<std::uint64_t>(status.st_ino)};
}

// A file that is read twice: hashed, then sent.
struct Member {
  fs::path path;
  bool follow = false;  // a reference may go through links, as the caches of other programs do
  FileStamp stamp{};
};

Result<Fd> open_member(const Member& member, FileStamp& stamp) {
  Fd fd(::open(member.path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | (member.follow ? 0 : O_NOFOLLOW)));
  if (!fd && errno == ELOOP) return unusable(member.path, "is a link, which the store does not have");
  if (!fd && errno == ENOENT) return unusable(member.path, "is missing");
  if (!fd) return std::unexpected(errno_error(fmt::format("open {}", member.path.string()), errno));
  struct stat status{};
  if (::fstat(fd.get(), &status) != 0)
    return std::unexpected(errno_error(fmt::format("stat {}", member.path.string()), errno));
  if (!S_ISREG(status.st_mode)) return unusable(member.path, "is no regular file");
  stamp = stamp_of(status);
  return fd;
}

// Up to so many bytes; fewer only at the end of the file.
Result<std::string> read_piece(const Fd& fd, const fs::path& path, std::size_t most) {
  std::string out(most, '\0');
  std::size_t have = 0;
  while (have < most) {
    const ssize_t got = ::read(fd.get(), out.data() + have, most - have);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return std::unexpected(errno_error(fmt::format("read {}", path.string()), errno));
    if (got == 0) break;
    have += static_cast<std::size_t>(got);
  }
  out.resize(have);
  return out;
}

struct Digests {
  std::string sha256;
  std::uint32_t crc32 = 0;
};

Result<Digests> digests_of(Member& member, Bytes before, const std::function<bool(Bytes)>& progress) {
  GEZEL_TRY(const Fd fd, open_member(member, member.stamp));
  downloads::Sha256 hash;
  Digests out;
  Bytes done = 0;
  while (true) {
    GEZEL_TRY(const std::string piece, read_piece(fd, member.path, kPiece));
    if (piece.empty()) break;
    hash.update(piece);
    out.crc32 = zip::crc32(out.crc32, piece);
    done += piece.size();
    if (progress && !progress(before + done))
      return fail(ErrorKind::cancelled, "cancelled", "the export was cancelled");
  }
  if (done != member.stamp.size) return changing(member.path);
  out.sha256 = hash.hex();
  return out;
}

// The install manifest without what is only true of this machine: paths, stamps, what was imported.
json::object installed_manifest(const InstalledModel& model, const std::vector<Bytes>& sizes,
                                const std::vector<std::string>& sha256) {
  ManifestDraft draft;
  draft.id = model.id;
  draft.name = model.name;
  draft.installed_at = model.installed_at;
  draft.source = model.source == "external" ? "import" : model.source;
  for (std::size_t i = 0; i < model.files.size(); ++i) {
    draft.files.push_back(model.files[i].filename());
    draft.stamps.push_back({.size = sizes[i]});
  }
  draft.sha256 = sha256;
  draft.architecture = model.architecture;
  draft.quantization = model.quantization;
  draft.context_window = model.context_window;
  draft.chat_template_present = model.chat_template_present;
  draft.projector = model.projector.filename();
  draft.draft = model.draft.filename();
  draft.catalog_id = model.catalog_id;
  draft.catalog_version = model.catalog_version;
  draft.repository = model.repository;
  draft.revision = model.revision;
  draft.repository_file = model.repository_file;
  draft.proven = !model.payload_fingerprint.empty();
  json::object out = draft_manifest(draft);
  out.erase("fileStamps");
  return out;
}

BundleFile text_file(std::string path, const std::string& text, BundleRole role) {
  return {std::move(path), text.size(), sha256_hex(text), role};
}

}  // namespace

ExportRequest export_request(InstalledModel model, const catalog::Catalog& catalog, WallTime created_at,
                             std::string created_by) {
  ExportRequest out;
  out.created_at = iso_time(created_at);
  out.created_by = std::move(created_by);
  if (!model.catalog_id.empty()) {
    const auto known = catalog.normalise(model.catalog_id);
    const auto item = known ? catalog.get(catalog::Kind::chat_model, *known)
                            : Result<catalog::Resolved>(std::unexpected(known.error()));
    if (item) {
      out.license = catalog::license_of(*item->item);
      out.catalog = catalog::resolved_manifest(*item);
      // Whatever the entry is called by now.
      out.catalog["id"] = model.catalog_id;
    }
  }
  out.model = std::move(model);
  return out;
}

struct BundleExport::State {
  // One entry: a text, or a file.
  struct Part {
    std::string text;
    std::optional<Member> file;
  };
  std::vector<Part> parts;
  std::optional<zip::Layout> layout;

  std::size_t part = 0;
  bool header_sent = false, ended = false;
  Fd open;
  Bytes left = 0;
};

BundleExport::BundleExport(std::unique_ptr<State> state, std::string file_name)
    : state_(std::move(state)), file_name_(std::move(file_name)) {}
BundleExport::BundleExport(BundleExport&&) noexcept = default;
BundleExport::~BundleExport() = default;

Result<BundleExport> BundleExport::prepare(const ExportRequest& request,
                                           const std::function<bool(Bytes)>& progress) {
  const InstalledModel& model = request.model;
  BundleManifest manifest;
  manifest.id = model.id;
  manifest.name = model.name;
  manifest.created_at = request.created_at;
  manifest.created_by = request.created_by;
  manifest.catalog_version = model.catalog_version;
  manifest.license = request.license;
  auto state = std::make_unique<State>();
  std::vector<zip::Layout::File> files;
  std::vector<Bytes> sizes;
  std::vector<std::string> sha256;
  for (const auto& path : model.files) {
    Member member{.path = path, .follow = model.source == "external"};
    GEZEL_TRY(const Digests digests, digests_of(member, manifest.approx_size_bytes, progress));
    manifest.approx_size_bytes += member.stamp.size;
    sizes.push_back(member.stamp.size);
    sha256.push_back(digests.sha256);
    const std::string name = "model/" + path.filename().string();
    manifest.files.push_back({name, member.stamp.size, digests.sha256, BundleRole::model});
    files.push_back({name, member.stamp.size, digests.crc32});
    state->parts.push_back({"", std::move(member)});
  }
  const auto add_text = [&](const std::string& name, json::object members, std::optional<BundleRole> role) {
    std::string text = to_json(members) + "\n";
    if (role) manifest.files.push_back(text_file(name, text, *role));
    // The manifests stand before the model, whatever its size.
    files.insert(files.begin(), {name, text.size(), zip::crc32(0, text)});
    state->parts.insert(state->parts.begin(), {std::move(text), std::nullopt});
  };
  json::object catalog = request.catalog;
  if (catalog.empty())
    catalog = {{"kind", "chat-model"},
               {"id", model.catalog_id.empty() ? model.id : model.catalog_id},
               {"name", model.name}};
  add_text("manifests/catalog.json", std::move(catalog), BundleRole::catalog_manifest);
  add_text("manifests/installed.json", installed_manifest(model, sizes, sha256),
           BundleRole::installed_manifest);
  add_text("manifest.json", bundle_manifest_json(manifest), std::nullopt);
  state->layout.emplace(std::move(files));
  return BundleExport(std::move(state), bundle_file_name(model.id));
}

Bytes BundleExport::total_bytes() const {
  return state_->layout->total_bytes();
}

Result<std::string> BundleExport::next() {
  State& state = *state_;
  if (state.part == state.parts.size())
    return std::exchange(state.ended, true) ? std::string() : state.layout->end();
  State::Part& part = state.parts[state.part];
  std::string out;
  if (!std::exchange(state.header_sent, true)) {
    out = state.layout->header(state.part);
    if (!part.file) {
      out += part.text;
    } else {
      FileStamp now{};
      GEZEL_TRY(state.open, open_member(*part.file, now));
      if (now != part.file->stamp) return changing(part.file->path);
      state.left = now.size;
    }
  }
  if (part.file && state.left > 0) {
    const std::size_t wanted = std::min<Bytes>(kPiece - std::min(kPiece, out.size()), state.left);
    GEZEL_TRY(const std::string piece, read_piece(state.open, part.file->path, wanted));
    if (piece.size() != wanted) return changing(part.file->path);
    state.left -= piece.size();
    out += piece;
  }
  if (!part.file || state.left == 0) {
    if (part.file) {
      // Written to while it was sent: then its size or its time is another one now.
      struct stat status{};
      if (::fstat(state.open.get(), &status) != 0 || stamp_of(status) != part.file->stamp)
        return changing(part.file->path);
    }
    state.open.reset();
    state.header_sent = false;
    ++state.part;
  }
  return out;
}

std::string bundle_file_name(std::string_view id) {
  std::string out(id);
  for (char& c : out) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '.' || c == '_' || c == '-';
    if (!plain) c = '-';
  }
  return out + std::string(kBundleExtension);
}

}  // namespace gezel::models
