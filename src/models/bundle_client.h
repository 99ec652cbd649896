// models/bundle_client.h
//
// A bundle as a host: its files are asked for like those of any other, so that an install from a bundle is an
// install, with everything that comes with one: room, verification, the last check of the model's header, a
// publish in one step, and a next try that goes on where the last one ended.
#pragma once
#include "downloads/http_client.h"
#include "models/bundle.h"

namespace gezel::models {

class BundleClient final : public downloads::HttpClient {
 public:
  // Both outlive it.
  BundleClient(const zip::Source& source, const Bundle& bundle) : source_(source), bundle_(bundle) {}
  Result<> get(const downloads::HttpGet& request, downloads::HttpSink& sink,
               const downloads::Cancellation& cancellation) override;

 private:
  const zip::Source& source_;
  const Bundle& bundle_;
};

}  // namespace gezel::models
