// engine/orphans.h
//
// Engine processes that outlived their daemon (spec 30 section 3.11.5). Each launch leaves
// <home>/runtime/<family>-<hash>.pid; a pid is ended only when start time and program still match, which
// makes a reused pid harmless.
#pragma once
#include <functional>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/files.h"
#include "engine/os_process.h"

namespace gezel::engine {

// What a pid file is written from and judged by; a test brings its own.
struct ProcessTable {
  std::function<std::optional<ProcessFacts>(std::int64_t)> facts = process_facts;
  std::function<void(std::int64_t)> kill = [](std::int64_t pid) { signal_process(pid, EndSignal::kill); };
  std::function<void(Millis)> sleep;  // unset: really
};

// Present while the process it names lives. Failures to write are logged and harmless.
class PidFile {
 public:
  PidFile(const fs::path& home, std::string_view family, std::string_view key, std::int64_t pid,
          const ProcessTable& table = {});
  PidFile(const PidFile&) = delete;
  PidFile& operator=(const PidFile&) = delete;
  ~PidFile();

 private:
  fs::path path_;
};

inline constexpr Millis kReapPoll{150};
inline constexpr Millis kReapWait{10'000};

// Ends the engines that dead daemons left behind and waits (10 s at most) until they are gone, because only
// then their memory is free. Once at daemon start, with the instance lock held, before anything is spawned.
// Returns how many there were.
int reap_orphans(const fs::path& home, const ProcessTable& table = {});

}  // namespace gezel::engine
