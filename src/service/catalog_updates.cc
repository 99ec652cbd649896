#include "service/catalog_updates.h"

#include <fmt/format.h>

#include <atomic>

#include "base/log.h"
#include "downloads/url.h"
#include "engine/on_pool.h"
#include "models/default_model.h"
#include "service/service_core.h"

namespace gezel::service {

using engine::on_pool;
using models::UpdateOutcome;

namespace {

constexpr Bytes kMaxStateBytes = 64 * kKiB;

// Beside the content and not in it: it is about every check.
fs::path state_path(const fs::path& home) {
  return home / "catalog-updates.json";
}

Result<> keep(const fs::path& home, const CatalogUpdateSettings& settings) {
  return change_config(home, [&](json::object& members) {
    json::object updates{{"enabled", settings.enabled}};
    if (!settings.url.empty()) updates["url"] = settings.url;
    members["catalogUpdates"] = std::move(updates);
  });
}

json::object report_json(const models::UpdateReport& report) {
  json::object out{{"outcome", models::to_string(report.outcome)}, {"message", report.message}};
  if (!report.version.empty()) out["contentVersion"] = report.version;
  if (!report.regressions.empty()) {
    json::array rows;
    for (const auto& item : report.regressions)
      rows.push_back(json::object{{"kind", catalog::to_string(item.kind)}, {"id", item.id}});
    out["regressions"] = std::move(rows);
  }
  return out;
}

}  // namespace

CatalogUpdates::CatalogUpdates(ServiceCore& core, std::shared_ptr<InstallParts> parts,
                               CatalogUpdateSettings settings)
    : core_(core), parts_(std::move(parts)), settings_(std::move(settings)), checked_(core.parts_.loop) {}

bool CatalogUpdates::is_blocked() const {
  return !settings_.enabled || !parts_->documents || core_.stopping_ ||
         !core_.options_.installs.catalog_override.empty();
}

void CatalogUpdates::start() {
  if (parts_->timers) timer_ = parts_->timers->make();
  core_.spawn_background(
      [](CatalogUpdates& self) -> asio::awaitable<void> {
        // What was switched off in the file while nobody ran counts no more.
        const bool off = !self.settings_.enabled;
        self.last_ =
            co_await on_pool(self.core_.parts_.pool, [home = self.core_.options_.home, off]() -> json::value {
              if (off) {
                if (const auto forgotten = models::forget_updates(home / "catalog-live"); !forgotten)
                  log_warn("updates of the catalog stay", {{"reason", forgotten.error().message}});
              }
              const auto text = read_file(state_path(home), kMaxStateBytes);
              auto parsed = text ? parse_json(*text) : Result<json::value>(json::value());
              return parsed && parsed->is_object() ? std::move(*parsed) : json::value();
            });
        self.schedule(models::kFirstUpdateCheck);
      }(*this),
      [] {});
}

void CatalogUpdates::begin_stop() {
  wanted_->store(false);
  cancellation_->cancel();
  if (timer_) timer_->cancel();
}

void CatalogUpdates::schedule(Millis delay) {
  if (!timer_ || core_.stopping_) return;
  timer_->arm(core_.parts_.clock.now() + delay, [this] {
    if (!core_.stopping_) core_.spawn_background(scheduled_check(), [] {});
  });
}

std::optional<Millis> CatalogUpdates::age() const {
  const auto* last = last_.if_object();
  const auto at = last == nullptr ? std::nullopt : models::parse_iso_time(string_or(*last, "at"));
  if (!at) return std::nullopt;
  const auto now = std::chrono::duration_cast<Millis>(core_.parts_.clock.wall_now().time_since_epoch());
  return now - Millis(*at);
}

asio::awaitable<void> CatalogUpdates::scheduled_check() {
  const auto core = core_.shared_from_this();
  const auto since = age();
  const bool fresh = since && *since >= Millis(0) && *since < models::kFreshUpdateCheck;
  if (!is_blocked() && !fresh) co_await check();
  schedule(models::kUpdateCheckEvery);
}

asio::awaitable<json::value> CatalogUpdates::check() {
  const auto core = core_.shared_from_this();
  if (is_blocked()) {
    std::string why = !settings_.enabled
                          ? "updates of the catalog are switched off (catalogUpdates of config.json)"
                      : core->stopping_ ? "the service is ending"
                                        : "GEZEL_GILDE_DATA_DIR replaces the catalog";
    co_return report_json(
        {.outcome = UpdateOutcome::blocked, .version = {}, .message = std::move(why), .regressions = {}});
  }
  if (checking_) {
    while (checking_) {
      if (!co_await checked_.wait()) break;
    }
    co_return last_;
  }
  struct Running {
    explicit Running(CatalogUpdates& updates) : self(updates) { self.checking_ = true; }
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;
    ~Running() {
      self.checking_ = false;
      self.checked_.notify();
    }
    CatalogUpdates& self;
  } const running(*this);
  const ServiceCore::Busy busy(core);
  models::UpdateQuestion question{.url = settings_.url,
                                  .live_folder = core->options_.home / "catalog-live",
                                  .bundled_version = parts_->catalog->content_version(),
                                  .may_activate = [wanted = wanted_] { return wanted->load(); }};
  const std::string at = iso_time(core->parts_.clock.wall_now());
  last_ = co_await on_pool(
      parts_->questions,
      [parts = parts_, question = std::move(question), cancellation = cancellation_, at,
       home = core->options_.home]() -> json::value {
        const auto report =
            models::update_catalog(question, *parts->catalog, *parts->documents, *cancellation);
        log_info("the catalog was checked for updates",
                 {{"outcome", std::string(models::to_string(report.outcome))}, {"reason", report.message}});
        json::object out = report_json(report);
        out["at"] = at;
        if (const auto kept = write_file_atomic(state_path(home), to_json(out) + "\n", 0600, false); !kept)
          log_warn("the last check for updates is not remembered", {{"reason", kept.error().message}});
        return out;
      });
  co_return last_;
}

asio::awaitable<json::value> CatalogUpdates::status() {
  const auto core = core_.shared_from_this();
  const ServiceCore::Busy busy(core);
  const auto content =
      co_await on_pool(core->parts_.pool, [catalog = parts_->catalog] { return catalog->content(); });
  const bool overridden = content.source == "override";
  json::object out{{"enabled", settings_.enabled},
                   {"url", settings_.url.empty() ? json::value() : json::value(settings_.url)},
                   {"mode", overridden ? std::string("overridden") : content.source},
                   {"bundledVersion", parts_->catalog->content_version()},
                   {"activeVersion", content.version},
                   {"lastCheck", last_},
                   {"updateInProgress", checking_}};
  co_return out;
}

asio::awaitable<api::ApiResult<json::value>> CatalogUpdates::set(std::optional<bool> enabled,
                                                                 std::optional<std::string> url) {
  const auto core = core_.shared_from_this();
  CatalogUpdateSettings next = settings_;
  if (enabled) next.enabled = *enabled;
  if (url) next.url = std::move(*url);
  if (!next.url.empty() && !downloads::parse_source(next.url)) {
    co_return std::unexpected(api::invalid_request(
        "invalid_body",
        fmt::format("url: is \"{}\"; it must be an https:// address (http:// on this machine only)",
                    downloads::shown_address(next.url)),
        "url"));
  }
  if (next.enabled && next.url.empty()) {
    co_return std::unexpected(api::invalid_request(
        "invalid_body", "url: is required where updates are enabled; it is the address of a pointer document",
        "url"));
  }
  const ServiceCore::Busy busy(core);
  const CatalogUpdateSettings before = settings_;
  const bool changed = next != settings_;
  settings_ = next;
  if (changed) {
    // A check that runs is about what was wanted before.
    wanted_->store(false);
    wanted_ = std::make_shared<std::atomic<bool>>(true);
    cancellation_->cancel();
    cancellation_ = std::make_shared<downloads::Cancellation>();
  }
  while (checking_) {
    if (!co_await checked_.wait()) break;
  }
  const auto kept =
      co_await on_pool(core->parts_.pool, [home = core->options_.home, next, before]() -> Result<> {
        GEZEL_CHECK(keep(home, next));
        if (next.enabled) return {};
        auto forgotten = models::forget_updates(home / "catalog-live");
        if (forgotten) return {};
        if (const auto back = keep(home, before); !back)
          log_warn("config.json has a setting of catalog updates that does not count yet",
                   {{"reason", back.error().message}});
        return forgotten;
      });
  // What was not kept does not count, unless somebody set it anew meanwhile.
  if (!kept && settings_ == next) settings_ = before;
  if (!kept) co_return std::unexpected(api::from_error(kept.error()));
  co_return co_await status();
}

}  // namespace gezel::service
