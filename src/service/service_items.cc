// The catalog as it is, for whoever wants to look into it (spec 60 section 3).
#include <fmt/format.h>

#include "engine/on_pool.h"
#include "service/service_core.h"

namespace gezel::service {
namespace {

json::object item_json(const catalog::Resolved& resolved) {
  return {{"sourceId", resolved.source},
          {"kind", catalog::to_string(resolved.item->kind)},
          {"manifest", catalog::resolved_manifest(resolved)}};
}

Result<json::value> look_up(const catalog::Catalog& catalog, std::string_view path,
                            const std::string& version) {
  const std::size_t slash = path.find('/');
  const std::string_view word = path.substr(0, slash);
  const auto kind = catalog::parse_kind(word);
  if (!kind) {
    return fail(ErrorKind::not_found, "unknown_kind",
                fmt::format("the catalog has no \"{}\"; it has chat-models, image-models and image-loras",
                            word.substr(0, 100)));
  }
  if (slash == std::string_view::npos) {
    GEZEL_TRY(const auto items, catalog.list(*kind));
    json::array out;
    for (const auto& item : items) out.push_back(item_json(item));
    return json::object{{"items", std::move(out)}};
  }
  std::string_view id = path.substr(slash + 1);
  constexpr std::string_view kVersions = "/versions";
  const bool versions = id.ends_with(kVersions);
  if (versions) id.remove_suffix(kVersions.size());
  GEZEL_TRY(const auto item, catalog.get(*kind, id, versions ? std::string() : version));
  json::object out = item_json(item);
  if (!versions) return out;
  return json::object{{"versions", out.at("manifest").at("availableVersions")}};
}

}  // namespace

asio::awaitable<api::ApiResult<json::value>> ServiceCore::catalog(std::string path, std::string version) {
  const auto core = shared_from_this();
  if (stopping_) co_return std::unexpected(api::shutting_down());
  const Busy busy(core);
  auto found = co_await engine::on_pool(
      parts_.pool, [catalog = parts_.installs->catalog, path = std::move(path),
                    version = std::move(version)] { return look_up(*catalog, path, version); });
  if (!found) co_return std::unexpected(api::from_error(found.error()));
  co_return std::move(*found);
}

}  // namespace gezel::service
