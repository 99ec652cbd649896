#include "engine/incidents.h"

#include <fstream>

#include "base/log.h"

namespace gezel::engine {

void IncidentLog::append(const ExitSnapshot& snapshot) const {
  const std::string line = to_json(incident_json(snapshot)) + "\n";
  std::error_code failed;
  if (auto made = make_private_folder(logs_); !made) {
    log_warn("cannot record an engine incident", {{"reason", made.error().message}});
    return;
  }
  if (fs::file_size(path(), failed) > kMaxBytes && !failed)
    fs::rename(path(), path().string() + ".1", failed);
  std::ofstream file(path(), std::ios::app | std::ios::binary);
  file << line << std::flush;
  if (!file) log_warn("cannot record an engine incident", {{"file", path().string()}});
}

}  // namespace gezel::engine
