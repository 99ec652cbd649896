#include "models/install_events.h"

#include <algorithm>

namespace gezel::models {
namespace {

std::string_view type_name(JobEvent::Type type) {
  switch (type) {
    case JobEvent::Type::progress:
      return "progress";
    case JobEvent::Type::retrying:
      return "retrying";
    case JobEvent::Type::verifying:
      return "verifying";
    case JobEvent::Type::extracting_metadata:
      return "extracting-metadata";
    case JobEvent::Type::done:
      return "done";
    case JobEvent::Type::error:
      return "error";
  }
  return {};
}

}  // namespace

json::object event_json(const JobEvent& event, std::string_view job_id, std::string_view model_id) {
  json::object out{{"type", type_name(event.type)}, {"jobId", job_id}, {"modelId", model_id}};
  if (!event.file.empty()) out["file"] = event.file;
  switch (event.type) {
    case JobEvent::Type::progress:
      // The same for engines whose files are counted together.
      out["bytesWritten"] = event.bytes_written;
      out["bytesWrittenAll"] = event.bytes_written;
      out["totalBytes"] = event.total_bytes;
      out["totalBytesAll"] = event.total_bytes;
      break;
    case JobEvent::Type::retrying:
      out["attempt"] = event.attempt;
      out["maxAttempts"] = event.most_attempts;
      out["delayMs"] = event.delay.count();
      out["reason"] = event.reason;
      break;
    case JobEvent::Type::done:
      if (!event.warning.empty()) out["warning"] = event.warning;
      break;
    case JobEvent::Type::error:
      out["error"] = event.error.message;
      if (!event.error.code.empty()) out["code"] = event.error.code;
      if (event.mismatch) {
        out["mismatch"] = json::object{{"file", event.mismatch->file},
                                       {"expected", event.mismatch->expected},
                                       {"actual", event.mismatch->actual}};
      }
      break;
    case JobEvent::Type::verifying:
    case JobEvent::Type::extracting_metadata:
      break;
  }
  return out;
}

void EventBuffer::push(JobEvent event) {
  event.number = ++last_;
  if (events_.size() == kMaxEvents) {
    const auto oldest = std::ranges::find_if(
        events_, [](const JobEvent& each) { return each.type == JobEvent::Type::progress; });
    events_.erase(oldest == events_.end() ? events_.begin() : oldest);
  }
  events_.push_back(std::move(event));
}

std::vector<JobEvent> EventBuffer::after(std::uint64_t number) const {
  const auto first =
      std::ranges::find_if(events_, [&](const JobEvent& each) { return each.number > number; });
  return {first, events_.end()};
}

}  // namespace gezel::models
