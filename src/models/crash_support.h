// models/crash_support.h
//
// For tests: a process that ends, as a kill would end it, once it has reached so many named steps.
#pragma once
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <string>
#include <string_view>

#include "models/store.h"

namespace gezel::models::testing {

struct End {
  bool completed = false;
  std::string step;  // the last one that was reached, when it did not complete
};

// `work` runs in a process of its own, with the hook for its steps; true = it went well. `steps` < 0: to its
// end.
inline End run_until(int steps, const std::function<bool(const StepHook&)>& work) {
  int report[2];
  if (::pipe(report) != 0) std::abort();
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(report[0]);
    const bool well = work([&](std::string_view step) {
      if (steps >= 0 && steps-- == 0) {
        static_cast<void>(!::write(report[1], step.data(), step.size()));
        ::_exit(9);  // nothing is tidied up
      }
    });
    ::_exit(well ? 0 : 1);
  }
  ::close(report[1]);
  End out;
  char buffer[256];
  for (ssize_t got; (got = ::read(report[0], buffer, sizeof buffer)) > 0;)
    out.step.assign(buffer, static_cast<std::size_t>(got));
  ::close(report[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  out.completed = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  return out;
}

}  // namespace gezel::models::testing
