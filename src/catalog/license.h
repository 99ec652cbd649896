// catalog/license.h
//
// What is shown of a model's licence (spec 60 section 16). Pure.
#pragma once
#include <optional>
#include <string>

#include "catalog/item.h"

namespace gezel::catalog {

struct License {
  std::string name, short_name;  // "unknown" without a known licence
  LicenseClass license_class = LicenseClass::unknown;
  std::string url;
};
License license_of(const Item& item);
License unknown_license();

// Whether the class allows commercial use; nothing is known of an unknown one.
std::optional<bool> commercial_use(LicenseClass license);

// What a person is told before an install: name, class and address, and plainly when commercial use is not
// allowed.
std::string license_line(const License& license);

}  // namespace gezel::catalog
