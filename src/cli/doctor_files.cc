#include "cli/doctor_files.h"

#include <fmt/format.h>

#include "catalog/catalog.h"
#include "service/config.h"

namespace gezel::cli {

Findings check_config(const std::filesystem::path& home) {
  Findings out;
  for (const auto& problem : service::read_config(home).problems) {
    out.push_back({"settings", "config.json", Verdict::warning,
                   problem.pointer.empty() ? problem.message : "not used: " + problem.message,
                   fmt::format("correct {}", service::config_path(home).string())});
  }
  return out;
}

Findings check_catalog(const std::filesystem::path& home, const service::InstallSettings& installs) {
  const fs::path folder = home / "catalog";
  catalog::CatalogOptions options{.user_folder = folder,
                                  .override_folder = installs.catalog_override,
                                  .live_folder = home / "catalog-live"};
  options.service.ignore_floors = installs.ignore_catalog_floors;
  const catalog::Catalog catalog(std::move(options));
  const auto own = catalog.check_user_folder();
  const auto all = catalog.list(catalog::Kind::chat_model);
  if (!own || !all) {
    return {{"catalog", "in use", Verdict::failure, own ? all.error().message : own.error().message,
             "nothing can be installed by name until then"}};
  }
  Findings out{{"catalog", "in use", Verdict::good,
                own->items == 0
                    ? fmt::format("{} chat models, none of your own", all->size())
                    : fmt::format("{} chat models; items of your own: {}", all->size(), own->items),
                ""}};
  for (const auto& problem : own->problems) {
    out.push_back({"catalog", problem.entry, Verdict::warning,
                   "not used: " + catalog::where_and_what(problem),
                   fmt::format("correct or remove {}", (folder / problem.file).string())});
  }
  return out;
}

}  // namespace gezel::cli
