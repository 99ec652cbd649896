// engine/incidents.h
//
// <home>/logs/native-incidents.jsonl: one line for every process of ours that ended without our wish. Written
// before any request that the end cost learns of it, so that whoever sees an incident id can look it up.
#pragma once
#include "base/files.h"
#include "engine/exit.h"

namespace gezel::engine {

class IncidentLog {
 public:
  static constexpr Bytes kMaxBytes =
      4 * kMiB;  // then the file becomes native-incidents.jsonl.1 and begins anew

  explicit IncidentLog(fs::path logs) : logs_(std::move(logs)) {}
  // Appends and flushes before it returns. A failure is logged: an incident must not become a second one.
  void append(const ExitSnapshot& snapshot) const;
  fs::path path() const { return logs_ / "native-incidents.jsonl"; }

 private:
  fs::path logs_;
};

}  // namespace gezel::engine
