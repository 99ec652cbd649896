// The steps in order, each safe to be cut off after: until the manifest is written staging is only bytes, and
// a published model is a rename. A file gets its final name in staging only after its digest was compared.

#include "models/installer.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"
#include "downloads/url.h"
#include "gguf/split.h"
#include "models/disk.h"
#include "models/header.h"
#include "models/manifest.h"
#include "models/mirrors.h"
#include "models/owner.h"
#include "models/preflight.h"
#include "models/signature.h"
#include "models/staging.h"

namespace gezel::models {
namespace {

using catalog::Backend;
using Failed = std::unexpected<InstallError>;
using Outcome = std::expected<void, InstallError>;

Failed failed(Error error) {
  return Failed(InstallError{std::move(error), {}});
}

// Binds GEZEL's Result to InstallError.
#define GEZEL_STEP(expression) \
  if (auto step = (expression); !step) return failed(std::move(step).error())

bool is_gguf_backend(Backend backend) {
  return backend == Backend::llama_cpp || backend == Backend::ds4;
}

class Install {
 public:
  Install(ModelStore& store, const downloads::Transfers& transfers, const Clock& clock,
          const InstallPlan& plan, const InstallOptions& options, InstallObserver& observer,
          const downloads::Cancellation& cancellation)
      : store_(store),
        transfers_(transfers),
        clock_(clock),
        plan_(plan),
        options_(options),
        observer_(observer),
        cancellation_(cancellation) {}

  std::expected<Installed, InstallError> run() {
    if (plan_.backend == Backend::mlx)
      return failed({ErrorKind::invalid, "unsupported_backend",
                     fmt::format("\"{}\" is an MLX model, which this host cannot run", plan_.id), "model"});
    GEZEL_STEP(check_plan(plan_));
    auto slot = store_.begin_install(plan_.id);
    if (!slot) return failed(std::move(slot).error());
    reached("reserved");
    GEZEL_STEP(look_at_installed());
    auto staging = StagingPlan::prepare(store_.home(), store_.root(), plan_);
    if (!staging) return failed(std::move(staging).error());
    staging_ = &*staging;
    reached("staged");
    GEZEL_STEP(check_room());
    reached("room");
    for (const auto& file : plan_.files) {
      if (auto got = obtain(file); !got) return Failed(std::move(got).error());
    }
    observer_.extracting_metadata();
    if (auto read = read_facts(); !read) return failed(reject(std::move(read).error()));
    reached("read header");
    GEZEL_STEP(write_manifest());
    reached("manifest");
    GEZEL_STEP(cancelled());
    GEZEL_STEP(store_.publish_install(*slot, options_.at_step));
    std::error_code ignored;  // a hidden leftover harms nobody
    fs::remove(store_.root() / plan_.id / kSealedPlanName, ignored);
    return Installed{warning_};
  }

 private:
  void reached(std::string_view step) const {
    if (options_.at_step) options_.at_step(step);
  }

  Result<> cancelled() const {
    if (!cancellation_.cancelled()) return {};
    return std::unexpected(cancelled_install());
  }

  // The copy that is there may have files of the new one. A model that came from elsewhere is not replaced by
  // one that only happens to get the same id.
  Result<> look_at_installed() {
    // Only our own store is asked: the machine's model may be copied, whatever state it is in. What cannot be
    // used now may be so for a while only: a file on a disk that is not there, too many open files. Its
    // manifest still says whose it is, and which files are good.
    if (auto recorded = store_.recorded(plan_.id)) {
      if (!options_.replace) GEZEL_CHECK(check_owner(recorded->model, plan_));
      current_ = std::move(recorded->model);
      return {};
    }
    return options_.replace ? Result<>()
                            : check_odd_manifest(store_.root() / plan_.id / kManifestName, plan_);
  }

  // The installed file that is what the plan asks for; nothing is read for it.
  std::optional<fs::path> reusable(const PlannedFile& file) const {
    if (!current_ || file.sha256.empty()) return std::nullopt;
    const auto digest = current_->sha256.find(file.name);
    if (digest == current_->sha256.end() || digest->second != file.sha256) return std::nullopt;
    const fs::path path = store_.root() / plan_.id / file.name;
    const auto stamp = stamp_file(path);
    if (!stamp || stamp->size != file.size_bytes || !is_regular(path)) return std::nullopt;
    // What changed since it was hashed is not what its digest says, though it may have the same size.
    const auto recorded = current_->stamps.find(file.name);
    if (recorded != current_->stamps.end() && recorded->second != *stamp) return std::nullopt;
    return path;
  }

  static bool is_regular(const fs::path& path) {
    std::error_code ignored;
    return fs::is_regular_file(fs::symlink_status(path, ignored));
  }

  // The digest of a file in staging that will do. One that was kept in spite of its digest needs that will
  // again.
  std::optional<std::string> verified(const PlannedFile& file) const {
    auto digest = staging_->verified(file);
    if (digest && !file.sha256.empty() && *digest != file.sha256 && !options_.skip_sha) return std::nullopt;
    return digest;
  }

  bool is_there(const PlannedFile& file) const { return verified(file) || reusable(file); }

  Result<> check_room() {
    std::vector<FetchedFile> fetched;
    for (const auto& file : plan_.files) {
      if (is_there(file))
        done_ += file.size_bytes;
      else
        fetched.push_back({file.size_bytes, staging_->partial_bytes(file)});
    }
    if (!fetched.empty()) {
      to_write_ = remaining_bytes(fetched);
      hold_.emplace(store_.disk_holds(), to_write_);
      GEZEL_CHECK(check_disk(plan_.id, to_write_, hold_->others(), store_.free_bytes()));
    }
    // From the first report on, what need not be fetched counts as done.
    report(0, false);
    return {};
  }

  void report(Bytes of_this_file, bool file_done) {
    const Bytes written = done_ + of_this_file, total = std::max(plan_.total_bytes(), written);
    if (hold_) hold_->set(std::min(to_write_, total - written));
    observer_.progress({written, total, file_done});
  }

  Outcome obtain(const PlannedFile& file) {
    GEZEL_STEP(cancelled());
    if (auto digest = verified(file)) {
      digests_.push_back(std::move(*digest));
      return {};
    }
    if (const auto source = reusable(file)) {
      GEZEL_STEP(reuse(file, *source));
      reached("reused " + file.name);
      return {};
    }
    auto digest = fetch_from_anywhere(file);
    if (!digest) return Failed(std::move(digest).error());
    digests_.push_back(std::move(*digest));
    done_ += file.size_bytes > 0 ? file.size_bytes : file_size(file);
    report(0, true);
    reached("verified " + file.name);
    return {};
  }

  Bytes file_size(const PlannedFile& file) const {
    const auto stamp = stamp_file(staging_->file(file));
    return stamp ? stamp->size : 0;
  }

  Result<> reuse(const PlannedFile& file, const fs::path& source) {
    const fs::path target = staging_->file(file);
    std::error_code error;
    fs::remove(target, error);
    fs::create_hard_link(source, target, error);
    if (error) {
      GEZEL_TRY(const std::string digest,
                copy_and_hash(source, target, [&](Bytes) { return !cancellation_.cancelled(); }));
      if (digest != file.sha256) {
        fs::remove(target, error);
        return fail(
            ErrorKind::corrupt, "hash_mismatch",
            fmt::format(
                "the installed file {} is no longer what it was; delete the model and install it again",
                file.name));
      }
    }
    digests_.push_back(file.sha256);
    return staging_->record(file, file.sha256);
  }

  // The digest of the file that is then in staging. Every address gets its own budget of retries; a file that
  // is not what the catalog says may still be right on another host.
  std::expected<std::string, InstallError> fetch_from_anywhere(const PlannedFile& file) {
    std::optional<InstallError> first;
    const auto sources = sources_of(plan_, file);
    for (std::size_t i = 0; i < sources.size(); ++i) {
      auto digest = fetch(file, sources[i]);
      if (digest) return digest;
      InstallError& error = digest.error();
      const bool elsewhere = error.error.kind != ErrorKind::cancelled && error.error.kind != ErrorKind::io &&
                             error.error.code != "insufficient_disk";
      if (!first) first = error;
      if (!elsewhere) return Failed(std::move(error));
      if (i + 1 < sources.size())
        log_info("trying the next source of a file", {{"file", file.name}, {"reason", error.error.message}});
    }
    if (sources.size() > 1)
      first->error.message += fmt::format("; {} other source(s) failed as well", sources.size() - 1);
    return Failed(std::move(*first));
  }

  std::expected<std::string, InstallError> fetch(const PlannedFile& file, const FileSource& source) {
    const auto got = transfers_.fetch(
        {.url = source.url,
         .partial = staging_->partial(file),
         .expected_bytes = file.size_bytes,
         .token = options_.token,
         .public_only = source.public_only},
        {.progress = [&](Bytes written, Bytes) { report(written, false); },
         .retrying = [&](const downloads::Retry& retry) { observer_.retrying(file.name, retry); }},
        cancellation_);
    if (!got) {
      Error error = got.error();
      error.message = fmt::format("{}: {}", file.name, error.message);
      return failed(cancellation_.cancelled() ? cancelled().error() : std::move(error));
    }
    reached("fetched " + file.name);
    observer_.verifying(file.name);
    std::string digest;
    if (got->sha256) {
      digest = *got->sha256;
    } else {
      auto hashed = sha256_file(staging_->partial(file), [&](Bytes) { return !cancellation_.cancelled(); });
      if (!hashed) return failed(cancellation_.cancelled() ? cancelled().error() : hashed.error());
      digest = std::move(*hashed);
    }
    if (!file.sha256.empty() && digest != file.sha256 && !options_.skip_sha) {
      staging_->drop(file);
      return Failed(mismatch(file, digest));
    }
    if (auto finished = staging_->finish(file, digest); !finished) return failed(std::move(finished).error());
    return digest;
  }

  InstallError mismatch(const PlannedFile& file, const std::string& actual) const {
    return {
        {ErrorKind::corrupt,
         "hash_mismatch",
         fmt::format(
             "{} on the host differs from the one {} (SHA-256 {}, expected {}); it was removed "
             "and nothing else changed. Try again later, or install it without the check if you trust the "
             "host",
             file.name, plan_.source == kFromUrl ? "that was asked for" : "in the catalog", actual,
             file.sha256),
         {}},
        Mismatch{file.name, file.sha256, actual}};
  }

  Result<> read_facts() {
    if (!is_gguf_backend(plan_.backend)) {
      for (const auto& file : plan_.files) GEZEL_CHECK(check_signature(staging_->file(file)));
      return {};
    }
    GEZEL_CHECK(check_split());
    GEZEL_TRY(facts_, read_header(staging_->file(plan_.files.front())));
    if (facts_.is_projector || facts_.is_imatrix) {
      return fail(ErrorKind::invalid, "not_a_model",
                  fmt::format("{} is {}, not a model", plan_.files.front().name,
                              facts_.is_projector ? "a projector" : "an importance matrix"));
    }
    if (!facts_.chat_template_present)
      warning_ = "The file has no chat template; a generic one is used, and replies may be poor.";
    return {};
  }

  // The engine finds the parts of a set by their names.
  Result<> check_split() const {
    std::vector<std::string> names;
    for (const auto& file : plan_.files) {
      if (file.role == FileRole::weights) names.push_back(file.name);
    }
    const auto first = gguf::parse_split_name(names.front());
    bool right = names.size() == (first ? first->count : 1);
    for (std::size_t i = 0; right && first && i < names.size(); ++i)
      right = names[i] == gguf::shard_name(*first, static_cast<std::uint32_t>(i + 1));
    if (right) return {};
    return fail(
        ErrorKind::invalid, "missing_parts",
        fmt::format("{} is one of {} parts by its name, but {} are listed; all must be there, in order",
                    names.front(), first ? first->count : 1, names.size()));
  }

  // Staging that holds no model is of no use to a later try.
  Error reject(Error error) {
    for (const auto& file : plan_.files) staging_->drop(file);
    std::error_code ignored;
    fs::remove_all(staging_->folder(), ignored);
    error.message = fmt::format("what was downloaded is no model that can be run: {}", error.message);
    return error;
  }

  Result<> write_manifest() {
    ManifestDraft draft;
    draft.id = plan_.id;
    draft.name = plan_.name;
    draft.installed_at = iso_time(clock_.wall_now());
    draft.source = plan_.source;
    draft.catalog_id = plan_.catalog_id;
    draft.catalog_version = plan_.catalog_version;
    draft.repository = plan_.repository;
    draft.repository_file = plan_.repository_file;
    draft.address = plan_.address;
    draft.revision = plan_.revision;
    draft.architecture = facts_.architecture;
    draft.quantization = plan_.quantization.empty() ? facts_.quantization : plan_.quantization;
    draft.context_window = facts_.context_window > 0 ? facts_.context_window : plan_.context_window;
    draft.chat_template_present = facts_.chat_template_present;
    draft.default_template = facts_.default_template;
    draft.media = plan_.media;
    // Parts, draft, auxiliary files, projector: the order that a manifest is read back in.
    for (const auto role : {FileRole::weights, FileRole::draft, FileRole::auxiliary, FileRole::projector}) {
      for (std::size_t i = 0; i < plan_.files.size(); ++i) {
        const auto& file = plan_.files[i];
        if (file.role != role) continue;
        const fs::path path = staging_->file(file);
        GEZEL_TRY(const FileStamp stamp, stamp_file(path));
        draft.files.push_back(path);
        draft.stamps.push_back(stamp);
        draft.sha256.push_back(digests_[i]);
        // Only what was compared with a pin is proven.
        draft.proven = draft.proven && digests_[i] == file.sha256;
        if (role == FileRole::draft) draft.draft = path;
        if (role == FileRole::projector) draft.projector = path;
        if (role == FileRole::auxiliary) draft.auxiliary.emplace_back(file.auxiliary_role, path);
      }
    }
    GEZEL_CHECK(write_file_atomic(staging_->folder() / kManifestName, to_json(draft_manifest(draft)) + "\n"));
    return staging_->seal();
  }

  ModelStore& store_;
  const downloads::Transfers& transfers_;
  const Clock& clock_;
  const InstallPlan& plan_;
  const InstallOptions& options_;
  InstallObserver& observer_;
  const downloads::Cancellation& cancellation_;
  StagingPlan* staging_ = nullptr;
  std::optional<InstalledModel> current_;
  std::vector<std::string> digests_;  // of the plan's files, in its order
  HeaderFacts facts_;
  Bytes done_ = 0;      // of files that are complete
  Bytes to_write_ = 0;  // when the room was checked
  std::optional<DiskHold> hold_;
  std::string warning_;
};

#undef GEZEL_STEP

}  // namespace

Error cancelled_install() {
  return {ErrorKind::cancelled,
          "cancelled",
          "the install was cancelled; what was downloaded stays, and the next install goes on from there",
          {}};
}

std::expected<Installed, InstallError> install(ModelStore& store, const downloads::Transfers& transfers,
                                               const Clock& clock, const InstallPlan& plan,
                                               const InstallOptions& options, InstallObserver& observer,
                                               const downloads::Cancellation& cancellation) {
  return Install(store, transfers, clock, plan, options, observer, cancellation).run();
}

}  // namespace gezel::models
