// downloads/timed_client.h
//
// A client whose answers must be complete in a given time, however steadily their bytes trickle in: for small
// documents. One that is not is `timed_out`, which may be tried again.
#pragma once
#include <fmt/format.h>

#include "downloads/http_client.h"

namespace gezel::downloads {

class TimedClient final : public HttpClient {
 public:
  // `client` and `clock` outlive this.
  TimedClient(HttpClient& client, const Clock& clock, Millis limit)
      : client_(client), clock_(clock), limit_(limit) {}

  Result<> get(const HttpGet& request, HttpSink& sink, const Cancellation& cancellation) override {
    TimedSink timed(sink, clock_, limit_);
    HttpGet limited = request;
    limited.limit = limit_;
    return client_.get(limited, timed, cancellation);
  }

 private:
  class TimedSink final : public HttpSink {
   public:
    TimedSink(HttpSink& sink, const Clock& clock, Millis limit)
        : sink_(sink), clock_(clock), limit_(limit), end_(clock.now() + limit) {}
    bool on_head(const ResponseHead& head) override { return sink_.on_head(head); }
    Result<> on_body(std::string_view data) override {
      if (clock_.now() >= end_) {
        return fail(ErrorKind::unavailable, "timed_out",
                    fmt::format("the answer was not complete after {} s", limit_.count() / 1'000));
      }
      return sink_.on_body(data);
    }

   private:
    HttpSink& sink_;
    const Clock& clock_;
    const Millis limit_;
    const MonotonicTime end_;
  };

  HttpClient& client_;
  const Clock& clock_;
  const Millis limit_;
};

}  // namespace gezel::downloads
