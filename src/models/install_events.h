// models/install_events.h
//
// What an install tells those who watch it (spec 60 section 9.3), and the bounded memory of it that late
// watchers are served from. Plain data and a buffer.
#pragma once
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/json.h"
#include "models/installer.h"

namespace gezel::models {

inline constexpr std::size_t kMaxEvents = 64;

struct JobEvent {
  enum class Type { progress, retrying, verifying, extracting_metadata, done, error };

  std::uint64_t number = 0;  // grows by one with each event of a job
  Type type = Type::progress;
  Bytes bytes_written = 0, total_bytes = 0;  // progress, of the whole model
  std::string file;                          // retrying, verifying
  int attempt = 0, most_attempts = 0;        // retrying
  Millis delay{};
  std::string reason;   // retrying: a finished sentence; no folders, like the error's message
  std::string warning;  // done
  Error error;          // error
  std::optional<Mismatch> mismatch;

  bool is_terminal() const { return type == Type::done || type == Type::error; }
};

// The wire form. `model_id` is qualified.
json::object event_json(const JobEvent& event, std::string_view job_id, std::string_view model_id);

// The last kMaxEvents events. When it is full the oldest progress goes first, so that changes of state are
// not pushed out by progress; only when there is none, the oldest event.
class EventBuffer {
 public:
  void push(JobEvent event);  // numbers it
  const std::deque<JobEvent>& events() const { return events_; }
  std::vector<JobEvent> after(std::uint64_t number) const;

 private:
  std::deque<JobEvent> events_;
  std::uint64_t last_ = 0;
};

}  // namespace gezel::models
