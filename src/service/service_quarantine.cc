// What keeps crashing and is not started any more. The files are the truth: an engine reads them at every
// start.
#include <fmt/format.h>

#include "engine/quarantine.h"
#include "service/service_core.h"

namespace gezel::service {

json::value ServiceCore::quarantine() {
  json::array out;
  for (const auto& entry :
       engine::Quarantine(engine::quarantine_folder(options_.home), parts_.clock).entries())
    out.push_back(engine::quarantine_json(entry));
  return json::object{{"quarantined", std::move(out)}};
}

api::ApiResult<json::value> ServiceCore::clear_quarantine(const std::string& model) {
  engine::Quarantine records(engine::quarantine_folder(options_.home), parts_.clock);
  auto lifted = records.clear(model);
  if (lifted && *lifted == 0 && !model.empty())
    lifted = records.clear(ModelName{std::string(kLlamaProvider), model}.qualified());
  if (!lifted) return std::unexpected(api::from_error(lifted.error()));
  if (*lifted == 0 && !model.empty())
    return std::unexpected(api::not_found(
        "not_quarantined", fmt::format("the model \"{}\" is not quarantined", model), "model"));
  return json::object{{"cleared", *lifted}};
}

}  // namespace gezel::service
