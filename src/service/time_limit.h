// service/time_limit.h
//
// The longest that a question to a host may take, however slowly its bytes trickle in.
#pragma once
#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "downloads/cancellation.h"

namespace gezel::service {

// Cancels what runs when it takes too long.
class TimeLimit {
 public:
  TimeLimit(const boost::asio::any_io_executor& loop, Millis limit,
            std::shared_ptr<downloads::Cancellation> cancelled)
      : limit_(limit), timer_(loop, limit) {
    timer_.async_wait([late = late_, cancelled](const boost::system::error_code& stopped) {
      if (stopped) return;
      *late = true;
      cancelled->cancel();
    });
  }
  // The error as it is, or that it was this limit.
  Error explain(Error error, const std::string& host) const {
    if (error.kind != ErrorKind::cancelled || !*late_) return error;
    return {ErrorKind::timeout, "timed_out",
            fmt::format("{} did not send the model's header within {} s; try again, or choose another mirror",
                        host, std::max<std::int64_t>(1, limit_.count() / 1000)),
            "model"};
  }

 private:
  Millis limit_;
  boost::asio::steady_timer timer_;
  std::shared_ptr<bool> late_ = std::make_shared<bool>(false);
};

}  // namespace gezel::service
