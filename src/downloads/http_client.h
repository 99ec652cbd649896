// downloads/http_client.h
//
// One GET, without redirects and retries: those are policy (transfer.h). Blocking, on a thread that may wait;
// the network waits while the sink writes, so a slow disk slows the sender down and nothing piles up.
#pragma once
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/result.h"
#include "downloads/cancellation.h"
#include "downloads/response.h"
#include "downloads/url.h"

namespace gezel::downloads {

struct HttpGet {
  Url url;
  Bytes offset = 0;          // > 0: only the rest from here is asked for
  std::string bearer;        // "" = no Authorization
  Bytes length = 0;          // > 0: only so many bytes are asked for; a server may send more
  std::string unless_etag;   // not empty: where the file still has this one, 304 and no body is asked for
  Millis limit{0};           // > 0: head and body are complete by then, or it is timed_out
  bool public_only = false;  // a host whose addresses are none of reach.h is not asked; with a proxy the
                             // proxy finds the address, and only one written as a number is looked at
};

class HttpSink {
 public:
  virtual ~HttpSink() = default;
  // Once, before any body. False: the body is of no use, and get() returns without it.
  virtual bool on_head(const ResponseHead& head) = 0;
  // In order. An error ends the request and is what get() returns.
  virtual Result<> on_body(std::string_view data) = 0;
};

class HttpClient {
 public:
  virtual ~HttpClient() = default;
  // Errors of the network have kind `unavailable` and may go away: host_unreachable, connection_refused,
  // timed_out, stalled, dropped, tls_error, network_error, and proxy_refused with a status of 5xx. Others:
  // proxy_refused, private_address (denied), cancelled, and those of the sink.
  virtual Result<> get(const HttpGet& request, HttpSink& sink, const Cancellation& cancellation) = 0;
};

struct CurlOptions {
  std::string user_agent;              // who we are, honestly: "gezel-inference/0.1.0"
  Millis stall{20'000};                // no byte for so long: stalled
  Bytes max_header_bytes = 64 * kKiB;  // of one answer
  Bytes max_bytes_per_second = 0;      // of one transfer; 0 = no limit
  std::string proxy;                   // "" = none; the environment is not asked
  std::string ca_file;                 // "" = the system's certificates
};

// Over libcurl. Thread-safe: each get() is on its own.
class CurlClient final : public HttpClient {
 public:
  CurlClient(CurlOptions options, const Clock& clock);
  Result<> get(const HttpGet& request, HttpSink& sink, const Cancellation& cancellation) override;

 private:
  CurlOptions options_;
  const Clock& clock_;
};

}  // namespace gezel::downloads
