// service/core_bundles.h
//
// ServiceCore's part of model bundles. Reading and hashing runs on the pool, a bounded number at a time; the
// rest of the state is the event loop's.
#pragma once
#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "downloads/cancellation.h"
#include "models/bundle_imports.h"
#include "service/bundles.h"

namespace gezel::service {

class ServiceCore;

inline constexpr int kMostBundles = 2;  // at a time
inline constexpr Millis kKeepBundleResult{10 * 60 * 1000};
inline constexpr std::size_t kMostBundleResults = 64;

class CoreBundles final : public Bundles {
 public:
  explicit CoreBundles(ServiceCore& core);
  void start();
  void begin_stop();

  asio::awaitable<api::ApiResult<std::shared_ptr<BundleDownload>>> export_model(std::string engine,
                                                                                std::string id) override;
  asio::awaitable<api::ApiResult<BundleScanned>> scan(BundleScan request) override;
  api::ApiResult<json::value> progress(const std::string& import_id) override;
  asio::awaitable<api::ApiResult<json::value>> confirm(std::string import_id, bool replace) override;
  asio::awaitable<api::ApiResult<json::value>> discard(std::string import_id) override;

 private:
  class Download;
  class Turn;
  // What is known of one import. The pool's thread writes the numbers.
  struct Job {
    std::atomic<int> phase = -1;  // models::ScanPhase, -1 = receiving
    std::atomic<Bytes> done = 0, total = 0;
    downloads::Cancellation cancellation;
    bool running = true;
    std::optional<api::ApiResult<json::value>> result;
    MonotonicTime ended_at{};
  };

  asio::awaitable<api::ApiResult<bool>> receive(BundleScan request, std::filesystem::path archive,
                                                std::shared_ptr<Job> job);
  asio::awaitable<void> look(std::string import_id, std::filesystem::path path, std::shared_ptr<Job> job);
  std::vector<std::string> busy() const;
  // Work on an import came to nothing: what was known of it before is what there is.
  void put_back(const std::string& id, std::shared_ptr<Job> before);
  void finish(Job& job, api::ApiResult<json::value> result);
  void purge();

  ServiceCore& core_;
  models::BundleImports imports_;
  std::map<std::string, std::shared_ptr<Job>, std::less<>> jobs_;  // by import id
  std::shared_ptr<int> working_ = std::make_shared<int>(0);
};

}  // namespace gezel::service
