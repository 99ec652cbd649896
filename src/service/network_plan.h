// service/network_plan.h
//
// From the name of a model of the network, "hf:..." or an address, to what an install of it would do.
#pragma once
#include <string>
#include <string_view>

#include "models/plan.h"
#include "service/install_parts.h"

namespace gezel::service {

// The host in an address, for people.
std::string host_of(const std::string& address);

// `id` and `sha256` as in EnsureRequest. Of an address on the hub the hub is asked, which has digests; of any
// other nothing is, yet. Blocking. Errors: those of resolve_hub() and plan_url().
Result<models::InstallPlan> plan_network(const std::string& text, std::string_view id,
                                         std::string_view sha256, const InstallParts& parts,
                                         const downloads::Cancellation& cancelled);

}  // namespace gezel::service
