// service/install_settings.h
//
// What the user's environment says about where models come from. Read by the program's main(), passed down.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "models/discovery.h"
#include "models/store.h"

namespace gezel::service {

struct InstallSettings {
  std::string hub;                              // HF_ENDPOINT; "" = the default hub
  std::string hub_token;                        // HF_TOKEN; only that hub sees it
  std::vector<std::string> mirrors;             // GEZEL_HUB_MIRRORS: further hubs with the same files
  std::string proxy;                            // HTTPS_PROXY; "" = none
  std::filesystem::path catalog_override;       // GEZEL_GILDE_DATA_DIR: replaces what is built in; "" = none
  bool ignore_catalog_floors = false;           // GEZEL_IGNORE_MIN_GEZEL_VERSION
  models::MachineStore machine = {};            // GEZEL_SHARED_ASSETS_DIR, GEZEL_SYSTEM_SCOPE
  bool discovery = true;                        // GEZEL_DISCOVERY=off
  models::DiscoveryRoots discovery_roots = {};  // where other programs keep models
};

// "a,b" -> {"a", "b"}: as GEZEL_HUB_MIRRORS is written.
std::vector<std::string> read_address_list(std::string_view text);

// Whether the hub and its mirrors can be asked. Error `bad_url` names the variable, what it is and what it
// must be.
Result<> check_addresses(const InstallSettings& settings);

}  // namespace gezel::service
