// downloads/local_files.h
//
// Files of this machine as a source like any other: a folder with the layout of the hub, on a disk or a
// network share, named by "file:///folder" in the configuration. Only an address that a transfer starts with
// can be one: no redirect and no catalog entry leads here.
#pragma once
#include "downloads/http_client.h"

namespace gezel::downloads {

class LocalFiles final : public HttpClient {
 public:
  // Everything that is no file is asked of `network`.
  explicit LocalFiles(HttpClient& network) : network_(network) {}
  Result<> get(const HttpGet& request, HttpSink& sink, const Cancellation& cancellation) override;

 private:
  HttpClient& network_;
};

}  // namespace gezel::downloads
