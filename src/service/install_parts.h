// service/install_parts.h
//
// The world of installs, for a service: where models come from and the threads that wait for the network. A
// test brings fakes.
#pragma once
#include <boost/asio/any_io_executor.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>

#include "base/clock.h"
#include "base/ids.h"
#include "capacity/profile.h"
#include "catalog/catalog.h"
#include "downloads/transfer.h"
#include "engine/timers.h"
#include "models/discovery.h"
#include "models/plan.h"
#include "service/install_settings.h"

namespace gezel::service {

struct InstallParts {
  // What the rest refers to.
  std::shared_ptr<void> keep_alive;
  // One thread for each install that may run at the same time; the others wait their turn.
  boost::asio::any_io_executor downloads;
  // Short questions to a hub, which must not wait behind downloads.
  boost::asio::any_io_executor questions;
  // Headers of models that are not here; a slow host keeps nobody else waiting.
  boost::asio::any_io_executor headers;
  Millis header_time{60'000};  // the most that reading one may take, with all questions before
  std::shared_ptr<const catalog::Catalog> catalog;
  std::shared_ptr<const downloads::Transfers> transfers;
  // For small documents, which are given up after 30 s. Null: updates of the catalog cannot be asked for.
  std::shared_ptr<const downloads::Transfers> documents;
  std::shared_ptr<engine::Timers> timers;  // null: nothing happens by itself
  models::Hub hub;
  downloads::AccessToken token;
  catalog::Host host;
  // What is rated against; nothing where memory cannot be read. Blocking.
  std::function<std::optional<capacity::MemoryProfile>()> profile;
  // Models of other programs. Blocking; empty = not looked for. What it returns once it was told to stop is
  // not used.
  std::function<std::vector<models::DiscoveredModel>(std::stop_token)> discover;
  // Waits until nothing runs on these threads any more.
  std::function<void()> drain;
};

// Where the catalog of a home is.
catalog::CatalogOptions catalog_options(const std::filesystem::path& home, const InstallSettings& settings);

// Those of a daemon. `home` holds the user's catalog. `settings` passed check_addresses().
std::shared_ptr<InstallParts> make_install_parts(const std::filesystem::path& home,
                                                 const InstallSettings& settings,
                                                 std::optional<Bytes> memory_budget,
                                                 const std::string& version, const Clock& clock,
                                                 Entropy& entropy);

}  // namespace gezel::service
