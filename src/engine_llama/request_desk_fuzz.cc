// Any bytes a worker may send, against requests that wait, run and are cancelled. Input: repeated [type,
// length low, length high, body...]; some types steer the desk itself.
#include <boost/asio/io_context.hpp>
#include <cstdlib>

#include "engine_llama/request_desk.h"

namespace {

using namespace gezel;
using namespace gezel::engine_llama;

void check(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  boost::asio::io_context io;
  ManualClock clock;
  engine::ManualTimers timers(clock);
  std::size_t sent = 0;
  RequestDesk desk(
      io.get_executor(), clock, timers, {},
      {[&](std::string frame) { sent += frame.size(); }, [] {}, [] {}, [](std::string_view, std::string) {}});
  std::vector<std::shared_ptr<Run>> runs;
  for (int i = 0; i < 6; ++i) runs.push_back(*desk.submit({}));
  desk.open(1);

  std::string_view input(reinterpret_cast<const char*>(data), size);
  while (input.size() >= 3) {
    const auto type = static_cast<std::uint8_t>(input[0]);
    const std::size_t length = static_cast<std::uint8_t>(input[1]) |
                               static_cast<std::size_t>(static_cast<std::uint8_t>(input[2])) << 8;
    const auto body = input.substr(3, length);
    input.remove_prefix(std::min(input.size(), 3 + length));
    Run& run = *runs[type % runs.size()];
    if (type < 20) {
      desk.cancel(run);
    } else if (type < 40) {
      while (!run.events.empty()) run.take();
      desk.taken(run);
    } else if (type < 50) {
      timers.advance(Millis(static_cast<std::int64_t>(length) * 20));
    } else {
      (void)desk.on_frame({static_cast<protocol::FrameType>(type), std::string(body)});
    }
    check(desk.admitted() <= 4);
    for (const auto& r : runs) check(r->unsent_bytes <= kOverflowBytes + 64 * kKiB * 200);
  }
  desk.fail_admitted([](const Run&) { return engine::make_error("engine-crashed", "gone"); }, true, true);
  desk.fail_all([](const Run&) { return engine::make_error("engine-crashed", "gone"); });
  check(desk.empty());
  for (const auto& r : runs) check(r->place == Run::Place::over);
  return 0;
}
