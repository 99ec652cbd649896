#include "service/network_plan.h"

#include <fmt/format.h>

#include "catalog/grammar.h"
#include "downloads/url.h"
#include "models/hub.h"
#include "models/ids.h"
#include "models/url_source.h"

namespace gezel::service {
namespace {

Result<models::InstallPlan> plan_hub_id(const std::string& text, const InstallParts& parts,
                                        const downloads::Cancellation& cancelled) {
  auto plan = models::resolve_hub(text, parts.hub, *parts.transfers, parts.token, cancelled);
  if (!plan && plan.error().param.empty() && plan.error().kind != ErrorKind::cancelled) {
    return fail(plan.error().kind, plan.error().code,
                fmt::format("{} cannot be looked up at {}: {}; check the name and the connection", text,
                            host_of(parts.hub.base), plan.error().message),
                "model");
  }
  return plan;
}

}  // namespace

std::string host_of(const std::string& address) {
  const auto url = downloads::parse_source(address);
  return url && !url->host.empty() ? url->host : "this machine";
}

Result<models::InstallPlan> plan_network(const std::string& text, std::string_view id,
                                         std::string_view sha256, const InstallParts& parts,
                                         const downloads::Cancellation& cancelled) {
  std::string hub_id = models::is_hub_id(text) ? text : std::string();
  if (hub_id.empty()) {
    // First of all it must be a good address.
    GEZEL_TRY(auto plan, models::plan_url(text, id, sha256));
    hub_id = models::hub_id_of_url(text, parts.hub);
    if (hub_id.empty()) return plan;
    if (sha256.empty()) sha256 = plan.files.front().sha256;
  }
  if (!id.empty()) GEZEL_CHECK(models::check_store_safe_id(id));
  GEZEL_TRY(auto plan, plan_hub_id(hub_id, parts, cancelled));
  if (!id.empty()) plan.id = id;
  if (sha256.empty()) return plan;
  auto& first = plan.files.front();
  if (plan.files.size() > 1 || !catalog::is_sha256(sha256) ||
      (!first.sha256.empty() && first.sha256 != catalog::lowered(sha256))) {
    return fail(
        ErrorKind::invalid, "invalid_sha256",
        plan.files.size() > 1
            ? fmt::format("the model has {} files, and sha256 is of one only; leave it out",
                          plan.files.size())
            : fmt::format("sha256 must be the digest of {}, 64 hexadecimal digits; the hub has {} for it",
                          first.name, first.sha256.empty() ? "none" : first.sha256),
        "sha256");
  }
  first.sha256 = catalog::lowered(sha256);
  return plan;
}

}  // namespace gezel::service
