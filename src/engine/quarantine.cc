// Both files hold {"schemaVersion":1,"entries":[...]}. An entry without "model" puts a whole build out.
#include "engine/quarantine.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"

namespace gezel::engine {
namespace {

constexpr int kSchemaVersion = 1;

using Entry = QuarantineEntry;

struct Strike {
  std::string backend, fingerprint, model_id, model;
  int before_ready = 0;
  std::vector<std::int64_t> crashes;  // wall time, ms
  bool struck = false;                // put out since the build's last success
};

json::array load(const fs::path& path) {
  auto text = read_file(path, 4 * kMiB);
  if (!text) return {};
  auto parsed = parse_json(*text);
  if (!parsed || !parsed->is_object() || int_or(parsed->get_object(), "schemaVersion", 0) != kSchemaVersion)
    return {};
  const auto* entries = array_at(parsed->get_object(), "entries");
  return entries ? *entries : json::array{};
}

Result<> store(const fs::path& path, json::array entries) {
  while (entries.size() > Quarantine::kMaxEntries) entries.erase(entries.begin());
  GEZEL_CHECK(make_private_folder(path.parent_path()));
  return write_file_atomic(path,
                           to_json(json::object{{"schemaVersion", kSchemaVersion}, {"entries", entries}}));
}

// A record that cannot be kept changes nothing for the launch at hand.
void warn_unless(const Result<>& saved) {
  if (!saved) log_warn("cannot remember an engine failure", {{"reason", saved.error().message}});
}

std::vector<Entry> load_entries(const fs::path& folder) {
  std::vector<Entry> out;
  for (const auto& value : load(folder / "unusable.json")) {
    if (!value.is_object()) continue;
    const auto& o = value.get_object();
    out.push_back({string_or(o, "backend"), string_or(o, "fingerprint"), string_or(o, "model"),
                   string_or(o, "modelFingerprint"), static_cast<int>(int_or(o, "signal", 0)),
                   string_or(o, "reason"), string_or(o, "at")});
  }
  return out;
}

Result<> store_entries(const fs::path& folder, const std::vector<Entry>& entries) {
  json::array out;
  for (const auto& e : entries) {
    json::object o{{"backend", e.backend}, {"fingerprint", e.fingerprint}};
    if (!e.model.empty()) {
      o["model"] = e.model_id;
      o["modelFingerprint"] = e.model;
    }
    o["signal"] = e.signal != 0 ? json::value(e.signal) : json::value(nullptr);
    o["reason"] = e.reason;
    o["at"] = e.at;
    out.push_back(std::move(o));
  }
  return store(folder / "unusable.json", std::move(out));
}

std::vector<Strike> load_strikes(const fs::path& folder) {
  std::vector<Strike> out;
  for (const auto& value : load(folder / "strikes.json")) {
    if (!value.is_object()) continue;
    const auto& o = value.get_object();
    Strike s{string_or(o, "backend"),
             string_or(o, "fingerprint"),
             string_or(o, "model"),
             string_or(o, "modelFingerprint"),
             static_cast<int>(int_or(o, "beforeReady", 0)),
             {},
             bool_or(o, "struck", false)};
    if (const auto* crashes = array_at(o, "crashes")) {
      for (const auto& at : *crashes)
        if (at.is_int64() && s.crashes.size() < Quarantine::kCrashes) s.crashes.push_back(at.get_int64());
    }
    out.push_back(std::move(s));
  }
  return out;
}

Result<> store_strikes(const fs::path& folder, const std::vector<Strike>& strikes) {
  json::array out;
  for (const auto& s : strikes) {
    out.push_back(json::object{{"backend", s.backend},
                               {"fingerprint", s.fingerprint},
                               {"model", s.model_id},
                               {"modelFingerprint", s.model},
                               {"beforeReady", s.before_ready},
                               {"crashes", json::array(s.crashes.begin(), s.crashes.end())},
                               {"struck", s.struck}});
  }
  return store(folder / "strikes.json", std::move(out));
}

bool same_build(const auto& entry, const LaunchIdentity& launch) {
  return entry.backend == launch.backend && entry.fingerprint == launch.binary;
}

}  // namespace

std::string fingerprint_stamp(const FileStamp& stamp) {
  return fmt::format("{}:{}", stamp.size, stamp.mtime_ns / 1'000'000);
}

std::string fingerprint_file(const fs::path& path) {
  const auto stamp = stamp_file(path);
  return stamp ? fingerprint_stamp(*stamp) : std::string();
}

json::object quarantine_json(const QuarantineEntry& entry) {
  return {{"model", entry.model_id.empty() ? json::value(nullptr) : json::value(entry.model_id)},
          {"backend", entry.backend},
          {"reason", entry.reason},
          {"at", entry.at}};
}

std::optional<std::string> Quarantine::reason(const LaunchIdentity& launch) const {
  for (const auto& e : load_entries(folder_)) {
    if (!same_build(e, launch)) continue;
    if (e.model.empty())
      return fmt::format(
          "this build of the engine was disabled on this machine at {}: {}. Rebuild or update it, or lift "
          "it with `gezel quarantine clear`",
          e.at, e.reason);
    if (e.model == launch.model && e.model_id == launch.model_id)
      return fmt::format(
          "the model {} was disabled at {}: {}. Import it again, or lift it with `gezel quarantine clear {}`",
          launch.model_id, e.at, e.reason, launch.model_id);
  }
  return std::nullopt;
}

void Quarantine::record_exit(const LaunchIdentity& launch, const ExitSnapshot& snapshot) {
  const bool unusable = proves_build_unusable(snapshot);
  if (launch.binary.empty() || (!unusable && !counts_as_strike(snapshot))) return;
  auto entries = load_entries(folder_);
  const auto put_out = [&](std::string model_id, std::string model, std::string reason) {
    log_error("engine quarantined",
              {{"model", model_id.empty() ? "(every model)" : model_id}, {"reason", reason}});
    entries.push_back({launch.backend, launch.binary, std::move(model_id), std::move(model),
                       snapshot.status ? snapshot.status->signal : 0, std::move(reason),
                       iso_time(clock_.wall_now())});
    warn_unless(store_entries(folder_, entries));
  };
  if (unusable) {
    put_out("", "", "it cannot run here (" + describe_end(snapshot) + ")");
    return;
  }
  if (launch.model.empty()) return;

  auto strikes = load_strikes(folder_);
  auto mine = std::ranges::find_if(strikes, [&](const Strike& s) {
    return same_build(s, launch) && s.model_id == launch.model_id && s.model == launch.model;
  });
  if (mine == strikes.end()) {
    strikes.push_back({launch.backend, launch.binary, launch.model_id, launch.model, 0, {}, false});
    mine = strikes.end() - 1;
  }
  if (!snapshot.reached_ready) ++mine->before_ready;
  const auto now = unix_millis(clock_.wall_now());
  std::erase_if(mine->crashes,
                [now](std::int64_t at) { return now - at > kCrashWindow.count() || at > now; });
  mine->crashes.push_back(now);
  const bool before_ready = mine->before_ready >= kStrikes;
  if (before_ready || mine->crashes.size() >= static_cast<std::size_t>(kCrashes)) {
    mine->struck = true;
    mine->before_ready = 0;
    mine->crashes.clear();
    put_out(
        launch.model_id, launch.model,
        fmt::format("it ended the engine {} times{}, last with {}", kStrikes,
                    before_ready ? " before it was ready" : " within 10 minutes", describe_end(snapshot)));
    const auto struck =
        std::ranges::count_if(strikes, [&](const Strike& s) { return s.struck && same_build(s, launch); });
    if (struck >= 2) put_out("", "", "two models kept ending it, and none worked in between");
  }
  warn_unless(store_strikes(folder_, strikes));
}

void Quarantine::record_ready(const LaunchIdentity& launch) {
  auto strikes = load_strikes(folder_);
  bool changed = false;
  for (auto& s : strikes) {
    if (!same_build(s, launch)) continue;
    changed |= s.struck;
    s.struck = false;  // the build works for something
    if (s.model_id == launch.model_id && s.model == launch.model) {
      changed |= s.before_ready != 0;
      s.before_ready = 0;
    }
  }
  if (changed) warn_unless(store_strikes(folder_, strikes));
}

std::vector<QuarantineEntry> Quarantine::entries() const {
  return load_entries(folder_);
}

Result<std::size_t> Quarantine::clear(std::string_view model_id) {
  auto entries = load_entries(folder_);
  const auto before = entries.size();
  std::erase_if(entries, [&](const Entry& e) { return model_id.empty() || e.model_id == model_id; });
  auto strikes = load_strikes(folder_);
  const auto forgotten =
      std::erase_if(strikes, [&](const Strike& s) { return model_id.empty() || s.model_id == model_id; });
  if (entries.size() != before) {
    GEZEL_CHECK(store_entries(folder_, entries));
  }
  if (forgotten > 0) {
    GEZEL_CHECK(store_strikes(folder_, strikes));
  }
  return before - entries.size();
}

}  // namespace gezel::engine
