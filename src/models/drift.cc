#include "models/drift.h"

#include <fmt/format.h>

#include <algorithm>

#include "catalog/grammar.h"
#include "models/manifest.h"

namespace gezel::models {
namespace {

using catalog::Backend;

constexpr std::string_view kTokenizerConfig = "tokenizer_config.json";
constexpr std::string_view kTemplateFile = "chat_template.jinja";

Payload gguf_payload(const catalog::GgufSource& source) {
  Payload out;
  out.repository = source.repository;
  const auto add = [&](const catalog::PinnedFile& pin, bool optional) {
    out.files.push_back({catalog::base_name(pin.name), pin.sha256, pin.size_bytes, optional, false});
  };
  for (const auto& pin : source.files) add(pin, false);
  if (source.draft) add(*source.draft, false);
  if (source.projector) add(*source.projector, true);
  return out;
}

Payload mlx_payload(const catalog::MlxSource& source) {
  Payload out;
  out.repository = source.repository;
  out.chat_template = source.chat_template;
  const bool has_template =
      !source.chat_template.empty() ||
      std::ranges::any_of(source.files, [](const auto& pin) { return pin.name == kTemplateFile; });
  for (const auto& pin : source.files)
    out.files.push_back(
        {pin.name, pin.sha256, pin.size_bytes, false, has_template && pin.name == kTokenizerConfig});
  return out;
}

bool has(const InstalledPayload& installed, const std::string& name) {
  return installed.sha256.contains(name) || installed.sizes.contains(name);
}

Drift same(std::string record = {}) {
  Drift out;
  out.record_fingerprint = std::move(record);
  return out;
}

Drift update(Drift::Verdict verdict, const catalog::Version& latest, std::string reason) {
  Drift out;
  out.verdict = verdict;
  out.update_available = true;
  out.available_version = latest.version.text();
  out.reason = std::move(reason);
  return out;
}

Drift changed(const catalog::Version& latest) {
  return update(Drift::Verdict::changed, latest,
                "The catalog has a newer build of this model; only the files that differ are downloaded.");
}

// Step 3: digests that were recorded at install.
Drift by_digest(const Payload& payload, const InstalledPayload& installed, const catalog::Version& latest) {
  for (const auto& file : payload.files) {
    const auto recorded = installed.sha256.find(file.name);
    if (recorded == installed.sha256.end()) {
      if (file.optional) continue;
      return changed(latest);
    }
    if (!file.transformed && catalog::lowered(recorded->second) != file.sha256) return changed(latest);
  }
  return same(fingerprint_of(payload, installed));
}

// Step 4: sizes only, which can tell that something differs but not that nothing does.
Drift by_size(const Payload& payload, const InstalledPayload& installed, const catalog::Version& latest) {
  bool compared = false;
  for (const auto& file : payload.files) {
    if (file.transformed || file.size_bytes == 0) continue;
    const auto size = installed.sizes.find(file.name);
    if (size == installed.sizes.end()) {
      if (file.optional) continue;
      return changed(latest);
    }
    compared = true;
    if (size->second != file.size_bytes) return changed(latest);
  }
  if (compared) return same();
  return update(
      Drift::Verdict::unknown, latest,
      "The catalog has a newer version of this model; whether its files differ could not be confirmed.");
}

}  // namespace

std::optional<Payload> payload_of(const catalog::Version& version, Backend backend) {
  if (!catalog::has_source(backend, version)) return std::nullopt;
  switch (backend) {
    case Backend::llama_cpp:
      return gguf_payload(*version.llama_cpp);
    case Backend::ds4:
      return gguf_payload(version.ds4->gguf);
    case Backend::mlx:
      return mlx_payload(*version.mlx);
    case Backend::sd_cpp:
      break;  // its pins are addresses; images are updated by hand
  }
  return std::nullopt;
}

std::string fingerprint_of(const Payload& payload, const InstalledPayload& installed) {
  std::vector<std::pair<std::string, std::string>> files;
  for (const auto& file : payload.files) {
    if (!file.optional || has(installed, file.name)) files.emplace_back(file.name, file.sha256);
  }
  return payload_fingerprint(payload.repository, files, payload.chat_template);
}

Drift find_drift(const InstalledPayload& installed, const catalog::Version& latest, Backend backend) {
  if (installed.catalog_version.empty() || installed.catalog_version == latest.version.text()) return same();
  const auto payload = payload_of(latest, backend);
  if (!payload) return same();
  if (!installed.fingerprint.empty())
    return installed.fingerprint == fingerprint_of(*payload, installed) ? same() : changed(latest);
  if (!installed.repository.empty() && installed.repository != payload->repository) return changed(latest);
  return installed.sha256.empty() ? by_size(*payload, installed, latest)
                                  : by_digest(*payload, installed, latest);
}

}  // namespace gezel::models
