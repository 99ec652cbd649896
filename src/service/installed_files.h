// service/installed_files.h
//
// Which installed model has a file: looked up by name, because a list asks it for everything that other
// programs have. Refers to the models it is made of.
#pragma once
#include <filesystem>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "models/store.h"

namespace gezel::service {

class InstalledFiles {
 public:
  explicit InstalledFiles(const std::vector<models::InstalledModel>& installed) {
    ids_.reserve(installed.size());
    for (const auto& model : installed) ids_.emplace(model.weights.native(), model.id);
  }

  // The id of the model whose first file is that of `paths`, by the name it was found under or by `real`,
  // where it really is ("" = unknown). "" = none.
  std::string_view id_of(const std::vector<std::filesystem::path>& paths,
                         const std::filesystem::path& real) const {
    if (paths.empty()) return {};
    auto found = ids_.find(paths.front().native());
    if (found == ids_.end() && !real.empty()) found = ids_.find(real.native());
    return found == ids_.end() ? std::string_view() : found->second;
  }

 private:
  std::unordered_map<std::string_view, std::string_view> ids_;
};

}  // namespace gezel::service
