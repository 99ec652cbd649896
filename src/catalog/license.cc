#include "catalog/license.h"

#include <fmt/format.h>

namespace gezel::catalog {

License unknown_license() {
  return {.name = "unknown", .short_name = "unknown", .url = {}};
}

License license_of(const Item& item) {
  License out = unknown_license();
  if (!item.license.empty()) out.name = out.short_name = item.license;
  if (!item.license_short_name.empty()) out.short_name = item.license_short_name;
  out.license_class = item.license_class;
  out.url = item.license_url.empty() ? item.upstream : item.license_url;
  return out;
}

std::optional<bool> commercial_use(LicenseClass license) {
  if (license == LicenseClass::unknown) return std::nullopt;
  return license != LicenseClass::commercial_restricted;
}

std::string license_line(const License& license) {
  std::string out = fmt::format("license: {} ({})", license.name, to_string(license.license_class));
  if (!license.url.empty()) out += fmt::format(", {}", license.url);
  if (license.license_class == LicenseClass::commercial_restricted) out += "  NOT FOR COMMERCIAL USE";
  return out;
}

}  // namespace gezel::catalog
