#include "service/shelf.h"

#include <algorithm>

#include "service/model_entry.h"

namespace gezel::service {
namespace {

capacity::RatedInput rated_input(const catalog::Resolved& resolved, catalog::Backend backend,
                                 const std::string& id,
                                 const std::optional<capacity::MemoryProfile>& profile) {
  const catalog::Item& item = *resolved.item;
  capacity::RatedInput out;
  out.id = id;
  out.name = item.name;
  if (profile)
    out.footprint = catalog::footprint(backend, item, *resolved.version, capacity::rating_floor(*profile));
  out.tags = item.tags;
  if (item.chat) out.supports_tools = item.chat->supports_tools;
  if (item.reco_score > 0) out.reco_score = item.reco_score;
  out.license_class = std::string(catalog::to_string(item.license_class));
  if (backend == catalog::Backend::llama_cpp && resolved.version->llama_cpp)
    out.quantization = resolved.version->llama_cpp->quantization;
  return out;
}

Bytes download_bytes(const catalog::Version& version, catalog::Backend backend) {
  if (backend == catalog::Backend::llama_cpp && version.llama_cpp && version.llama_cpp->size_bytes > 0)
    return version.llama_cpp->size_bytes;
  return version.size_bytes;
}

}  // namespace

Shelf arrange_shelf(const std::vector<catalog::Resolved>& catalog, const catalog::Host& host,
                    const std::optional<capacity::MemoryProfile>& profile) {
  Shelf out;
  std::map<std::string, ShelfItem> items;
  std::vector<capacity::RatedInput> inputs;
  for (const auto& resolved : catalog) {
    if (!resolved.item->chat) continue;
    const auto license = catalog::license_of(*resolved.item);
    out.facts.emplace(resolved.item->id,
                      CatalogFacts{.capabilities = catalog::capabilities_of(catalog::Backend::llama_cpp,
                                                                            *resolved.item->chat),
                                   .supports_reasoning = resolved.item->chat->supports_reasoning,
                                   .license = license});
    if (!resolved.item->aliases.empty()) out.aliases.emplace(resolved.item->id, resolved.item->aliases);
    const auto backend = catalog::choose_backend(*resolved.version, host);
    if (!backend) continue;
    const auto capabilities = catalog::capabilities_of(*backend, *resolved.item->chat);
    const std::string id = catalog::qualified_id(*backend, resolved.item->id);
    items.emplace(id, ShelfItem{.id = id,
                                .name = resolved.item->name,
                                .download_bytes = download_bytes(*resolved.version, *backend),
                                .context_window = resolved.item->chat->context_window,
                                .capabilities = capabilities,
                                .rated = {},
                                .license = license,
                                .released = unix_seconds_of(resolved.version->released_at)});
    inputs.push_back(rated_input(resolved, *backend, id, profile));
  }
  if (profile) {
    // Nothing that qualifies is answered by an id of the catalog; others are qualified as they came in.
    const std::string first = capacity::choose_first_model(inputs, *profile).id;
    const auto parsed = catalog::parse_qualified_id(first);
    out.first_choice = parsed ? parsed->id : first;
  }
  if (profile && !inputs.empty()) {
    for (auto& rated : capacity::rate_models(inputs, *profile)) {
      ShelfItem item = items.at(rated.id);
      item.rated = std::move(rated);
      out.items.push_back(std::move(item));
    }
  } else {
    for (const auto& id : capacity::curated_order(std::move(inputs))) out.items.push_back(items.at(id));
  }
  return out;
}

const CatalogFacts* Shelf::find_facts(std::string_view id) const {
  if (const auto found = facts.find(id); found != facts.end()) return &found->second;
  for (const auto& [target, names] : aliases) {
    if (std::ranges::find(names, id) != names.end()) return &facts.at(target);
  }
  return nullptr;
}

json::object license_json(const catalog::License& license) {
  json::object out{{"name", license.name},
                   {"shortName", license.short_name},
                   {"class", catalog::to_string(license.license_class)}};
  out["url"] = license.url.empty() ? json::value() : json::value(license.url);
  return out;
}

json::object capabilities_json(const catalog::Capabilities& capabilities) {
  return {{"text", capabilities.text},
          {"tools", capabilities.tools},
          {"structuredOutput", capabilities.structured_output},
          {"images", capabilities.images},
          {"foregroundOnly", capabilities.foreground_only}};
}

json::object downloadable_entry(const ShelfItem& item) {
  json::object entry{{"id", item.id},
                     {"object", "model"},
                     {"created", item.released},
                     {"owned_by", item.id.substr(0, item.id.find(':'))},
                     {"name", item.name}};
  if (item.context_window > 0) entry["context_window"] = item.context_window;
  entry["availability"] = "downloadable";
  entry["locality"] = "on-device";
  entry["download_bytes"] = item.download_bytes;
  entry["capabilities"] = capabilities_json(item.capabilities);
  entry["license"] = license_json(item.license);
  if (item.rated) {
    entry["fit"] = json::object{{"tier", capacity::fit_tier_name(item.rated->fit.tier)},
                                {"label", item.rated->fit.label},
                                {"detail", item.rated->fit.detail}};
    entry["recommendation"] =
        json::object{{"score", item.rated->score}, {"recommended", item.rated->recommended}};
  }
  return entry;
}

}  // namespace gezel::service
