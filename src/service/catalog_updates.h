// service/catalog_updates.h
//
// Updates of the catalog as the daemon keeps them (spec 60 section 3.1): off unless the user switched them
// on, asked for by a schedule or by hand, one at a time. On the event loop; the asking itself is on a pool.
#pragma once
#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <memory>
#include <optional>

#include "api/error.h"
#include "downloads/cancellation.h"
#include "engine/timers.h"
#include "engine/wakeup.h"
#include "models/catalog_updates.h"
#include "service/config.h"

namespace gezel::service {

class ServiceCore;
struct InstallParts;

class CatalogUpdates {
 public:
  CatalogUpdates(ServiceCore& core, std::shared_ptr<InstallParts> parts, CatalogUpdateSettings settings);

  void start();
  void begin_stop();

  // Body of GET /api/catalog-updates: {enabled, url, mode, bundledVersion, activeVersion, lastCheck,
  // updateInProgress}.
  boost::asio::awaitable<json::value> status();
  // Asks now, or joins who asks already. {outcome, contentVersion, message, regressions}.
  boost::asio::awaitable<json::value> check();
  // Members that are absent stay; kept in config.json. Switched off, what is built in counts at once, and
  // what updates brought is deleted. Error `invalid_body`: an address that cannot be asked, or none.
  boost::asio::awaitable<api::ApiResult<json::value>> set(std::optional<bool> enabled,
                                                          std::optional<std::string> url);

 private:
  bool is_blocked() const;
  void schedule(Millis delay);
  boost::asio::awaitable<void> scheduled_check();
  // Milliseconds since the last check; nothing where there was none.
  std::optional<Millis> age() const;

  ServiceCore& core_;
  const std::shared_ptr<InstallParts> parts_;
  CatalogUpdateSettings settings_;
  std::unique_ptr<engine::Timer> timer_;
  bool checking_ = false;
  engine::Wakeup checked_;
  json::value last_;  // of state.json, null = never
  // Of what is switched on now; a check of an earlier time takes nothing over.
  std::shared_ptr<std::atomic<bool>> wanted_ = std::make_shared<std::atomic<bool>>(true);
  std::shared_ptr<downloads::Cancellation> cancellation_ = std::make_shared<downloads::Cancellation>();
};

}  // namespace gezel::service
