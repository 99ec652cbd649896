#include "models/share.h"

#include <fmt/format.h>

#include <algorithm>

#include "catalog/grammar.h"

namespace gezel::models {
namespace {

std::unexpected<Error> refused(const SharedCandidate& candidate, const std::string& why) {
  return fail(
      ErrorKind::conflict, "not_shareable",
      fmt::format("\"{}\" is not what the catalog has now: {}; `gezel pull {} --update` brings it there",
                  candidate.id, why, candidate.id),
      "model");
}

bool holds_weights(std::string_view name) {
  const std::string lower = catalog::lowered(name);
  return lower.ends_with(".gguf") || lower.ends_with(".safetensors");
}

}  // namespace

Result<> check_shareable(const SharedCandidate& candidate, const Payload& payload) {
  for (const auto& file : payload.files) {
    const auto found = candidate.sha256.find(file.name);
    if (found == candidate.sha256.end()) {
      if (file.optional) continue;
      return refused(candidate, fmt::format("{} is missing", file.name));
    }
    if (!file.transformed && catalog::lowered(found->second) != catalog::lowered(file.sha256))
      return refused(candidate, fmt::format("{} has the SHA-256 {} instead of {}", file.name, found->second,
                                            file.sha256));
  }
  for (const auto& name : candidate.folder) {
    if (holds_weights(name) &&
        std::ranges::find(payload.files, name, &PayloadFile::name) == payload.files.end())
      return refused(candidate, fmt::format("{} belongs to nothing in it", name));
  }
  return {};
}

}  // namespace gezel::models
