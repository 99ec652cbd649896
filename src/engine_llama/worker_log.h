// engine_llama/worker_log.h
//
// Writes what workers print to <home>/logs, in order and off the event loop.
#pragma once
#include <atomic>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/strand.hpp>
#include <memory>
#include <string>
#include <string_view>

#include "engine/rolling_log.h"

namespace gezel::engine_llama {

class WorkerLog {
 public:
  static constexpr Bytes kMaxPending = kMiB;  // a flood beyond this is dropped and counted

  WorkerLog(const boost::asio::any_io_executor& pool, const fs::path& home, const Clock& clock,
            std::string_view model_id);
  void line(std::string_view text);  // without line end

 private:
  struct Shared {
    engine::RollingLog file;
    std::atomic<Bytes> pending = 0;
    std::atomic<std::uint64_t> dropped = 0;
  };
  boost::asio::strand<boost::asio::any_io_executor> strand_;
  std::shared_ptr<Shared> shared_;
  const Clock& clock_;
  const std::string prefix_;  // all workers write to one file: each line says whose it is
};

}  // namespace gezel::engine_llama
