#include "service/model_name.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>

#include "models/ids.h"

namespace gezel::service {
namespace {

// In provider order: on-device first. A pinned id that several pin belongs to the first of them.
constexpr std::array<std::string_view, 7> kProviders{"llama-cpp", "mlx",    "ds4",   "openai",
                                                     "anthropic", "ollama", "remote"};
constexpr std::string_view kAliasPrefix = "gezel:";
constexpr std::size_t kMaxShown = 200;  // of a caller's text, in a message

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n\f\v";
  const std::size_t first = text.find_first_not_of(kBlank);
  return first == std::string_view::npos ? std::string_view()
                                         : text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

std::string near_text(std::string_view id, const KnownModels& known) {
  std::vector<std::string> near;
  for (const std::string& candidate : models::most_similar(id, known.installed)) {
    near.push_back(fmt::format("{}:{}", kLlamaProvider, candidate));
  }
  return near.empty() ? std::string() : fmt::format(" Did you mean {}?", fmt::join(near, " or "));
}

api::ApiResult<ModelName> pinned_default(std::string_view provider, const KnownModels& known) {
  const auto pinned = known.defaults.find(std::string(provider));
  if (provider == kLlamaProvider && !known.stand_in.empty() &&
      (pinned == known.defaults.end() ||
       std::ranges::find(known.installed, pinned->second) == known.installed.end()))
    return ModelName{std::string(provider), known.stand_in};
  if (pinned != known.defaults.end()) return ModelName{pinned->first, pinned->second};
  return std::unexpected(
      api::not_found("model_not_found",
                     fmt::format("no default model is pinned for the provider \"{0}\"; name one as "
                                 "\"{0}:<model>\". GET /v1/models lists what is installed.",
                                 provider),
                     "model"));
}

}  // namespace

bool is_provider(std::string_view word) {
  return std::find(kProviders.begin(), kProviders.end(), word) != kProviders.end();
}

std::string provider_list() {
  return fmt::format("{}", fmt::join(kProviders, ", "));
}

api::ApiResult<ModelName> resolve_model_name(std::string_view text, const KnownModels& known) {
  const std::string_view name = trimmed(text);
  if (name.empty())
    return std::unexpected(api::invalid_request("invalid_body", "model: must not be blank", "model"));
  if (name.starts_with(kAliasPrefix) && !trimmed(name.substr(kAliasPrefix.size())).empty()) {
    return std::unexpected(
        api::not_found("gezel_not_found",
                       fmt::format("there is no alias \"{}\". GET /v1/models lists what can be asked for.",
                                   name.substr(0, kMaxShown)),
                       "model"));
  }

  const std::size_t separator = name.find_first_of(":/");
  const std::string_view prefix = name.substr(0, separator);
  if (is_provider(prefix)) {
    const std::string_view model =
        separator == std::string_view::npos ? "" : trimmed(name.substr(separator + 1));
    if (model.empty()) return pinned_default(prefix, known);
    return ModelName{std::string(prefix), std::string(model)};
  }
  for (const std::string_view provider : kProviders) {
    const auto pinned = known.defaults.find(std::string(provider));
    if (pinned != known.defaults.end() && pinned->second == name)
      return ModelName{pinned->first, pinned->second};
  }
  for (const auto* ids : {&known.installed, &known.unusable}) {
    if (std::find(ids->begin(), ids->end(), name) != ids->end())
      return ModelName{std::string(kLlamaProvider), std::string(name)};
  }
  return std::unexpected(
      api::not_found("model_not_found",
                     fmt::format("there is no model \"{}\".{} Name one as \"<provider>:<model>\"; GET "
                                 "/v1/models lists what is installed.",
                                 name.substr(0, kMaxShown), near_text(name, known)),
                     "model"));
}

api::ApiError model_not_found(const ModelName& name, const KnownModels& known) {
  const std::string near = name.provider == kLlamaProvider ? near_text(name.model, known) : std::string();
  return api::not_found("model_not_found",
                        fmt::format("the model \"{}\" of the provider \"{}\" is not installed.{} GET "
                                    "/v1/models lists what is; no request "
                                    "downloads a model: add one with `gezel pull MODEL` (POST "
                                    "/v1/models/ensure) or `gezel import FILE`.",
                                    name.model.substr(0, kMaxShown), name.provider, near),
                        "model");
}

}  // namespace gezel::service
