// service/bundles.h
//
// Model bundles, for the routes of spec 60 section 18: a model out of this machine as one archive, and one
// into it in two steps, with somebody who looks in between. On the event loop, like InferenceService.
#pragma once
#include <boost/asio/awaitable.hpp>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "api/error.h"
#include "api/exchange.h"
#include "base/bytes.h"
#include "base/json.h"

namespace gezel::service {

namespace asio = boost::asio;

inline constexpr std::string_view kBundleMediaType = "application/vnd.gezel.model+zip";

// An archive on its way out.
class BundleDownload {
 public:
  virtual ~BundleDownload() = default;
  virtual std::string file_name() const = 0;
  virtual Bytes total_bytes() const = 0;
  // The next piece, "" = that was all. After an error what was sent is worth nothing.
  virtual asio::awaitable<api::ApiResult<std::string>> next() = 0;
};

struct BundleScan {
  std::string import_id;              // "" = one is made
  std::filesystem::path path;         // an archive of this machine; "" = it is uploaded
  api::BodyReader* upload = nullptr;  // read to its end before scan() returns
  std::optional<Bytes> upload_bytes;  // that are going to come
  bool respond_async = false;         // return when it is there, not when it was looked at
};
struct BundleScanned {
  bool complete = false;  // false: progress() tells the rest
  json::value body;
};

class Bundles {
 public:
  virtual ~Bundles() = default;
  // Errors: `unsupported_backend`, `model_not_found`, those of BundleExport::prepare(), `too_many_bundles`.
  virtual asio::awaitable<api::ApiResult<std::shared_ptr<BundleDownload>>> export_model(std::string engine,
                                                                                        std::string id) = 0;
  // Errors: those of BundleImports::begin() and scan(), of the upload, `insufficient_disk` (507),
  // `too_many_bundles`.
  virtual asio::awaitable<api::ApiResult<BundleScanned>> scan(BundleScan request) = 0;
  // {importId, status: running|done|error, phase, bytes, totalBytes} and then `review` or `error`; for ten
  // minutes after its end. Error `import_not_found`.
  virtual api::ApiResult<json::value> progress(const std::string& import_id) = 0;
  // {model}. Errors: those of BundleImports::confirm().
  virtual asio::awaitable<api::ApiResult<json::value>> confirm(std::string import_id, bool replace) = 0;
  // {ok}; a scan that runs is cancelled. Error `import_not_found`.
  virtual asio::awaitable<api::ApiResult<json::value>> discard(std::string import_id) = 0;
};

}  // namespace gezel::service
