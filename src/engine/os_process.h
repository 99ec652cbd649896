// engine/os_process.h
//
// Processes as the operating system tells them: who a pid is, how to end it, when it ended. The only place of
// this module that talks to the system; one implementation file per system.
#pragma once
#include <boost/asio/any_io_executor.hpp>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>

#include "base/process.h"

namespace gezel::engine {

namespace asio = boost::asio;

enum class EndSignal { terminate, kill };

// To the process and its group. A process that is gone already is fine.
void signal_process(std::int64_t pid, EndSignal signal);

// The nice value of a process; 0 when nothing is known of it.
int nice_of(std::int64_t pid);
// Sets the nice value of every thread of a process of ours, also of those that it starts at this moment.
// False: the kernel refused, and nothing changed; whoever may raise a nice value may not always lower it
// again. A process that is gone is fine.
bool set_nice(std::int64_t pid, int nice);

struct ProcessFacts {
  std::uint64_t start_time = 0;   // in the system's own unit; with the pid it names a process for good
  std::filesystem::path program;  // absolute, as started
};
// Nothing when no such process lives (a zombie does not).
std::optional<ProcessFacts> process_facts(std::int64_t pid);

// Calls once, on `loop`, when the child has ended; it is reaped then. Without a signal handler, which a
// library must not install: through a pidfd where the system has them, else by asking every 50 ms. Dropping
// the watch stops the calls; the child is still reaped.
class ChildWatch {
 public:
  virtual ~ChildWatch() = default;
};
std::unique_ptr<ChildWatch> watch_child(const asio::any_io_executor& loop, std::int64_t pid,
                                        std::function<void(ExitStatus)> on_exit);

}  // namespace gezel::engine
