#include "engine/orphans.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "base/ids.h"
#include "base/json.h"
#include "base/log.h"

namespace gezel::engine {

PidFile::PidFile(const fs::path& home, std::string_view family, std::string_view key, std::int64_t pid,
                 const ProcessTable& table)
    : path_(home / "runtime" / fmt::format("{}-{}.pid", family, sha256_hex(key).substr(0, 16))) {
  const auto facts = table.facts(pid);
  if (!facts) return;
  const json::object content{
      {"pid", pid}, {"startTime", facts->start_time}, {"program", facts->program.string()}, {"key", key}};
  Result<> written = make_private_folder(path_.parent_path());
  if (written) written = write_file_atomic(path_, to_json(content) + "\n", 0600, false);
  if (!written) log_warn("cannot write an engine's pid file", {{"reason", written.error().message}});
}

PidFile::~PidFile() {
  std::error_code ignored;
  fs::remove(path_, ignored);
}

int reap_orphans(const fs::path& home, const ProcessTable& table) {
  struct Orphan {
    std::int64_t pid;
    std::uint64_t start_time;
  };
  std::vector<Orphan> dying;
  std::error_code failed;
  std::vector<fs::path> files;
  for (fs::directory_iterator it(home / "runtime", failed), end; !failed && it != end; it.increment(failed)) {
    const auto name = it->path().filename().string();
    if (name.ends_with(".pid") && name.contains('-')) files.push_back(it->path());
  }
  for (const auto& file : files) {
    const auto text = read_file(file, 64 * kKiB);
    const auto parsed = text ? parse_json(*text) : Result<json::value>();
    fs::remove(file, failed);
    if (!text || !parsed || !parsed->is_object()) continue;
    const auto& object = parsed->get_object();
    const auto pid = int_or(object, "pid", 0);
    const auto facts = pid > 1 ? table.facts(pid) : std::nullopt;
    if (!facts || facts->program != string_or(object, "program") || facts->program.empty() ||
        static_cast<std::int64_t>(facts->start_time) != int_or(object, "startTime", -1))
      continue;
    log_warn("ending an engine that a dead daemon left behind", {{"pid", std::to_string(pid)}});
    table.kill(pid);
    dying.push_back({pid, facts->start_time});
  }
  const int found = static_cast<int>(dying.size());
  for (Millis waited{0}; waited < kReapWait; waited += kReapPoll) {
    std::erase_if(dying, [&](const Orphan& o) {
      const auto facts = table.facts(o.pid);
      return !facts || facts->start_time != o.start_time;
    });
    if (dying.empty()) break;
    table.sleep ? table.sleep(kReapPoll) : std::this_thread::sleep_for(kReapPoll);
  }
  for (const auto& o : dying)
    log_error("an engine that a dead daemon left behind does not end", {{"pid", std::to_string(o.pid)}});
  return found;
}

}  // namespace gezel::engine
