#include "cli/bundle_file.h"

#include <fmt/format.h>

#include "base/ids.h"
#include "cli/daemon_client.h"
#include "downloads/partial_file.h"
#include "models/bundle_export.h"
#include "models/disk.h"
#include "models/preflight.h"

namespace gezel::cli {
namespace {

Error interrupted() {
  return {ErrorKind::cancelled, std::string(kCodeInterrupted), "interrupted", {}};
}

// The archive under a name of its own first, that nobody else has, so that nobody finds half of one.
Result<> write_archive(const Environment& env, models::BundleExport& archive, const fs::path& target,
                       StatusLine& status) {
  const fs::path partial = fmt::format("{}.{}.partial", target.string(), new_uuid(*env.entropy));
  struct Remove {
    const fs::path& path;
    ~Remove() {
      std::error_code error;
      fs::remove(path, error);
    }
  } const leftover{partial};
  GEZEL_TRY(auto file, downloads::PartialFile::open(partial));
  const Bytes total = archive.total_bytes();
  while (true) {
    if (Interrupt::raised()) return std::unexpected(interrupted());
    GEZEL_TRY(const std::string piece, archive.next());
    if (piece.empty()) break;
    GEZEL_CHECK(file.append(piece));
    status.show(fmt::format("writing … {} of {}", format_bytes(file.size()), format_bytes(total)));
  }
  GEZEL_CHECK(file.sync());
  return models::rename_new(partial, target);
}

}  // namespace

std::function<bool(Bytes)> hashing_shown(StatusLine& status) {
  return [&status](Bytes bytes) {
    status.show(fmt::format("computing SHA-256 … {}", format_bytes(bytes)));
    return !Interrupt::raised();
  };
}

Result<> write_bundle(const Environment& env, models::InstalledModel model, const catalog::Catalog& catalog,
                      const fs::path& target, StatusLine& status) {
  GEZEL_CHECK(models::check_disk(target.filename().string(), model.size_bytes, 0,
                                 models::free_space(target.parent_path())));
  auto archive =
      models::BundleExport::prepare(models::export_request(std::move(model), catalog, env.clock->wall_now(),
                                                           fmt::format("gezel-inference/{}", env.version)),
                                    hashing_shown(status));
  if (!archive && Interrupt::raised()) return std::unexpected(interrupted());
  if (!archive) return std::unexpected(std::move(archive).error());
  return write_archive(env, *archive, target, status);
}

}  // namespace gezel::cli
