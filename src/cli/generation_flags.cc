#include "cli/generation_flags.h"

namespace gezel::cli {

json::object generation_body(const std::string& model, const Arguments& arguments) {
  json::object body{{"model", model}};
  if (const auto tokens = arguments.integer("--max-tokens")) body["max_tokens"] = *tokens;
  if (const auto temperature = arguments.number("--temperature")) body["temperature"] = *temperature;
  if (const auto seed = arguments.integer("--seed")) body["seed"] = *seed;
  return body;
}

}  // namespace gezel::cli
