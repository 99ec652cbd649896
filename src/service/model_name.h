// service/model_name.h
//
// From the `model` string of a request to a provider and its model (spec 10 section 5). Pure: what is
// installed or pinned is passed in.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "api/error.h"

namespace gezel::service {

inline constexpr std::string_view kLlamaProvider = "llama-cpp";
// "discovered:<source>/<id>": a model of another program on this machine.
inline constexpr std::string_view kDiscoveredPrefix = "discovered:";

// Stands for the default model, where no installed one has that id.
inline constexpr std::string_view kDefaultModelName = "default";

struct ModelName {
  std::string provider;
  std::string model;
  std::string qualified() const { return provider + ":" + model; }
  bool operator==(const ModelName&) const = default;
};

// Whether a model's name may begin with that word and ':' or '/'.
bool is_provider(std::string_view word);
std::string provider_list();  // "llama-cpp, mlx, ..."

struct KnownModels {
  std::vector<std::string> installed;           // ids of the llama-cpp store
  std::vector<std::string> unusable;            // ids there whose files are missing or wrong
  std::map<std::string, std::string> defaults;  // provider -> pinned model
  std::string stand_in = {};  // of llama-cpp, when its pin is absent or not installed; "" = nothing is
};

// Errors: `invalid_body` (blank), `gezel_not_found`, `model_not_found`; the latter two are 404 and name near
// misses. Beyond the spec, an id of the store without its provider is accepted, so that what `gezel models`
// prints can be typed everywhere. Whether a model with a provider is installed is not decided here.
api::ApiResult<ModelName> resolve_model_name(std::string_view text, const KnownModels& known);

// The 404 for a model that is not there: names it, near misses, and where models are listed and come from.
api::ApiError model_not_found(const ModelName& name, const KnownModels& known);

}  // namespace gezel::service
