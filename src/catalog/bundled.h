// catalog/bundled.h
//
// The packed catalog files that are built into the program (catalog/*.json of the source tree): the source
// that is always there.
#pragma once
#include <span>
#include <string_view>

namespace gezel::catalog {

struct BundledFile {
  std::string_view name;  // "chat-models.json"
  std::string_view text;
};
std::span<const BundledFile> bundled_files();

}  // namespace gezel::catalog
