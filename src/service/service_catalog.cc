// What could be had besides what is installed: the catalog, rated for this machine, and models of other
// programs. Both are looked at on the pool and remembered, so that a list costs no disk.
#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"
#include "base/public_text.h"
#include "engine/on_pool.h"
#include "gguf/metadata.h"
#include "models/default_model.h"
#include "models/ids.h"
#include "service/core_installs.h"
#include "service/running.h"
#include "service/service_core.h"

namespace gezel::service {

using catalog::Backend;
using engine::on_pool;

namespace {

constexpr Millis kArrangeAge{1'000};
constexpr Millis kLookAge{60 * 60 * 1'000};
constexpr Millis kLookAgeAsked{1'000};  // when somebody asks for nothing else
constexpr int kIdTries = 100;

std::string discovered_id(const models::DiscoveredModel& row) {
  return fmt::format("{}{}/{}", kDiscoveredPrefix, row.source, row.suggested_id);
}

// The part after the provider; nothing for another provider's model.
std::optional<std::string_view> llama_id(std::string_view text) {
  if (text.starts_with(kLlamaProvider) && text.size() > kLlamaProvider.size()) {
    const char separator = text[kLlamaProvider.size()];
    if (separator == ':' || separator == '/') return text.substr(kLlamaProvider.size() + 1);
  }
  if (text.find('/') != std::string_view::npos) return std::nullopt;
  const auto other = catalog::parse_qualified_id(text);
  return other ? std::nullopt : std::optional(text);
}

json::object discovered_entry(const models::DiscoveredModel& row) {
  json::object entry{{"id", discovered_id(row)},
                     {"object", "model"},
                     {"created", 0},
                     {"owned_by", row.source},
                     {"name", row.name}};
  if (row.context_window > 0) entry["context_window"] = row.context_window;
  entry["availability"] = "available";
  entry["locality"] = "on-device";
  return entry;
}

api::ApiError not_usable(std::string_view text, const models::DiscoveredModel& row) {
  return api::invalid_request("unsupported_model",
                              fmt::format("the model \"{}\" cannot be used: {}", text, row.reason), "model");
}

// Whoever may ask a model is told no folders of this machine.
api::ApiError public_error(const Error& error) {
  auto out = api::from_error(error);
  out.message = without_folders(out.message);
  return out;
}

json::object discovered_row(const models::DiscoveredModel& row, const std::string& installed) {
  json::array paths;
  for (const auto& path : row.paths) paths.emplace_back(path.string());
  json::object out{{"id", discovered_id(row)},        {"source", row.source}, {"paths", std::move(paths)},
                   {"suggestedId", row.suggested_id}, {"name", row.name},     {"sizeBytes", row.size_bytes}};
  const auto put = [&](std::string_view key, const std::string& value) {
    if (!value.empty()) out[key] = value;
  };
  put("architecture", row.architecture);
  put("quantization", row.quantization);
  if (row.context_window > 0) out["contextWindow"] = row.context_window;
  put("mmproj", row.projector.string());
  put("catalogMatch", row.catalog_match);
  out["importable"] = row.importable;
  put("reason", row.reason);
  put("installedAs", installed);
  return out;
}

std::string size_text(Bytes bytes) {
  return bytes > 0 ? fmt::format("{}, ", format_bytes(bytes)) : std::string();
}

}  // namespace

void CoreInstalls::start() {
  core_.spawn_background(
      [](CoreInstalls& self) -> asio::awaitable<void> {
        co_await on_pool(self.core_.parts_.pool, [&store = self.core_.store_] {
          store.remove_stale_downloads();
          return true;
        });
        const auto moved = co_await on_pool(
            self.core_.parts_.slow_pool, [&store = self.core_.store_, go_on = self.core_.go_on_] {
              return store.move_in_private_models([&](Bytes) { return go_on->load(); });
            });
        if (!moved.empty() && !self.core_.stopping_) self.core_.scan_soon();
        co_await self.look_around();
      }(*this),
      [] {});
}

asio::awaitable<void> CoreInstalls::arrange() {
  const auto core = core_.shared_from_this();
  if (arranging_) {
    while (arranging_) {
      if (!co_await arranged_.wait()) co_return;
    }
    co_return;
  }
  const Running running(arranging_, arranged_);
  auto shelf = co_await on_pool(core->parts_.pool, [parts = parts_]() -> std::optional<Shelf> {
    auto items = parts->catalog->list(catalog::Kind::chat_model);
    if (!items) {
      log_warn("the catalog cannot be read", {{"reason", items.error().message}});
      return std::nullopt;
    }
    // Memory is looked at only when there is something to rate.
    std::optional<capacity::MemoryProfile> profile;
    if (!items->empty() && parts->profile) profile = parts->profile();
    return arrange_shelf(*items, parts->host, profile);
  });
  // A catalog that cannot be read offers nothing, and the list is still right.
  shelf_ = shelf ? std::move(*shelf) : Shelf();
  arranged_at_ = core->parts_.clock.now();
}

void CoreInstalls::arrange_if_old() {
  if (core_.stopping_ || arranging_ || core_.parts_.clock.now() - arranged_at_ < kArrangeAge) return;
  core_.spawn_background(arrange(), [] {});
}

asio::awaitable<void> CoreInstalls::look_around() {
  const auto core = core_.shared_from_this();
  if (!parts_->discover) co_return;
  if (looking_) {
    while (looking_) {
      if (!co_await looked_.wait()) co_return;
    }
    co_return;
  }
  const Running running(looking_, looked_);
  const std::stop_token stop = stop_looking_.get_token();
  auto found = co_await on_pool(core->parts_.slow_pool, [parts = parts_, stop] {
    std::vector<Found> out;
    std::set<fs::path> seen;
    for (auto& row : parts->discover(stop)) {
      if (stop.stop_requested()) break;
      std::error_code error;
      fs::path real = row.paths.empty() ? fs::path() : fs::canonical(row.paths.front(), error);
      // A folder of the user's own may hold what another program has as well.
      if (!error && row.source == "user" && !seen.insert(real).second) continue;
      seen.insert(real);
      out.push_back({std::move(row), error ? fs::path() : std::move(real)});
    }
    return out;
  });
  // Half a look must not hide what the last one found.
  if (stop.stop_requested()) co_return;
  found_ = std::move(found);
  looked_at_ = core->parts_.clock.now();
}

void CoreInstalls::look_around_if_old(Millis age) {
  if (core_.stopping_ || looking_ || !parts_->discover) return;
  if (looked_at_ && core_.parts_.clock.now() - *looked_at_ < age) return;
  core_.spawn_background(look_around(), [] {});
}

InstalledFiles CoreInstalls::installed_files() const {
  return InstalledFiles(core_.inventory_.installed);
}

const CoreInstalls::Found* CoreInstalls::find_discovered(std::string_view text) const {
  const std::string_view rest = text.substr(kDiscoveredPrefix.size());
  const std::size_t slash = std::min(rest.size(), rest.find('/'));
  const std::string_view source = rest.substr(0, slash), id = rest.substr(std::min(rest.size(), slash + 1));
  const auto found = std::ranges::find_if(
      found_, [&](const Found& each) { return each.row.source == source && each.row.suggested_id == id; });
  return found == found_.end() ? nullptr : &*found;
}

json::object CoreInstalls::found_entry(const Found& found) const {
  json::object entry = discovered_entry(found.row);
  const auto* facts = shelf_ ? shelf_->find_facts(found.row.catalog_match) : nullptr;
  entry["license"] = license_json(facts == nullptr ? catalog::unknown_license() : facts->license);
  return entry;
}

asio::awaitable<json::array> CoreInstalls::with_offers(json::array data) {
  const auto core = core_.shared_from_this();
  if (!shelf_ && !core->stopping_) {
    co_await arrange();
  } else {
    arrange_if_old();
  }
  look_around_if_old(kLookAge);
  std::set<std::string> listed;
  std::vector<std::pair<std::string, json::object>> installed;  // with the catalog's id
  for (auto& value : data) {
    json::object& entry = value.as_object();
    const std::string id = string_or(entry, "id");
    listed.insert(id);
    const auto own = llama_id(id);
    const auto* model = own ? core_.installed(*own) : nullptr;
    if (model != nullptr && describe(*model, entry)) installed.emplace_back(*own, entry);
  }
  const InstalledFiles files = installed_files();
  for (const auto& found : found_) {
    if (!found.row.importable || !files.id_of(found.row.paths, found.real).empty()) continue;
    data.push_back(found_entry(found));
  }
  if (!shelf_) co_return data;
  for (const auto& [id, entry] : installed) {
    const auto aliases = shelf_->aliases.find(id);
    if (aliases == shelf_->aliases.end()) continue;
    for (const auto& alias : aliases->second) {
      json::object other = entry;
      other["id"] = catalog::qualified_id(Backend::llama_cpp, alias);
      other["alias_of"] = catalog::qualified_id(Backend::llama_cpp, id);
      if (listed.insert(string_or(other, "id")).second) data.push_back(std::move(other));
    }
  }
  for (const auto& item : shelf_->items) {
    if (!listed.contains(item.id)) data.push_back(downloadable_entry(item));
  }
  co_return data;
}

bool CoreInstalls::describe(const models::InstalledModel& model, json::object& entry) const {
  const auto* facts =
      shelf_ ? shelf_->find_facts(model.catalog_id.empty() ? model.id : model.catalog_id) : nullptr;
  entry["license"] = license_json(facts == nullptr ? catalog::unknown_license() : facts->license);
  if (facts == nullptr) return false;  // nothing is guessed
  if (facts->supports_reasoning) entry["supports_reasoning"] = true;
  entry["capabilities"] = capabilities_json(facts->capabilities);
  return true;
}

asio::awaitable<std::optional<json::object>> CoreInstalls::offer(std::string id) {
  const auto core = core_.shared_from_this();
  if (core->stopping_) co_return std::nullopt;
  co_await arrange();
  if (id.starts_with(kDiscoveredPrefix)) {
    const Found* found = find_discovered(id);
    if (found == nullptr || !found->row.importable) co_return std::nullopt;
    co_return found_entry(*found);
  }
  if (const auto own = llama_id(id); own && own->size() == id.size())
    id = catalog::qualified_id(Backend::llama_cpp, id);
  if (!shelf_) co_return std::nullopt;
  const auto item = std::ranges::find(shelf_->items, id, &ShelfItem::id);
  if (item == shelf_->items.end() || core->unrecognized(llama_id(id).value_or("")) != nullptr)
    co_return std::nullopt;
  co_return downloadable_entry(*item);
}

asio::awaitable<json::value> CoreInstalls::discovered(std::string source) {
  const auto core = core_.shared_from_this();
  const bool old = !looked_at_ || core->parts_.clock.now() - *looked_at_ >= kLookAgeAsked;
  if (old && !core->stopping_) co_await look_around();
  json::array rows;
  const InstalledFiles files = installed_files();
  for (const auto& found : found_) {
    if (source.empty() || found.row.source == source)
      rows.push_back(discovered_row(found.row, std::string(files.id_of(found.row.paths, found.real))));
  }
  co_return json::object{{"models", std::move(rows)}};
}

asio::awaitable<api::ApiResult<CoreInstalls::Found>> CoreInstalls::found_row(std::string text) {
  const auto core = core_.shared_from_this();
  if (core->stopping_) co_return std::unexpected(api::shutting_down());
  const ServiceCore::Busy busy(core);
  if (find_discovered(text) == nullptr) co_await look_around();
  if (const Found* there = find_discovered(text)) co_return *there;
  co_return std::unexpected(api::not_found(
      "model_not_found",
      fmt::format(
          "there is no model \"{}\" of another program on this machine; GET /v1/models lists what there is",
          text.substr(0, 200)),
      "model"));
}

asio::awaitable<api::ApiResult<ModelName>> CoreInstalls::known_as(std::string text) {
  const auto core = core_.shared_from_this();
  const auto found = co_await found_row(text);
  if (!found) co_return std::unexpected(found.error());
  if (auto known = std::string(installed_files().id_of(found->row.paths, found->real)); !known.empty())
    co_return ModelName{std::string(kLlamaProvider), std::move(known)};
  if (!found->row.importable) co_return std::unexpected(not_usable(text, found->row));
  co_return std::unexpected(api::not_found(
      "model_not_loaded",
      fmt::format("the model \"{}\" is another program's and was not used yet", text.substr(0, 200)),
      "model"));
}

asio::awaitable<api::ApiResult<RemoteModel>> CoreInstalls::discovered_model(std::string text) {
  const auto core = core_.shared_from_this();
  const auto found = co_await found_row(text);
  if (!found) co_return std::unexpected(found.error());
  const ServiceCore::Busy busy(core);
  const auto metadata = co_await on_pool(
      core->parts_.pool, [path = found->row.paths.front()] { return gguf::read_model(path); });
  if (!metadata) co_return std::unexpected(public_error(metadata.error()));
  RemoteModel out;
  out.name = text;
  out.facts = capacity::model_facts(*metadata);
  out.facts.id = found->row.suggested_id;
  out.facts.weights = metadata->file_size_bytes;
  out.source = FactsSource::installed;
  co_return out;
}

asio::awaitable<api::ApiResult<ModelName>> CoreInstalls::adopt(std::string text) {
  const auto core = core_.shared_from_this();
  if (core->stopping_) co_return std::unexpected(api::shutting_down());
  // Two first uses at the same time must not register it twice.
  while (adopting_) {
    if (!co_await adopted_.wait()) co_return std::unexpected(api::shutting_down());
  }
  const Running running(adopting_, adopted_);
  const ServiceCore::Busy busy(core);
  auto row = co_await found_row(text);
  if (!row) co_return std::unexpected(std::move(row).error());
  const Found found = std::move(*row);
  const auto installed = [&] { return std::string(installed_files().id_of(found.row.paths, found.real)); };
  if (auto known = installed(); !known.empty())
    co_return ModelName{std::string(kLlamaProvider), std::move(known)};
  if (!found.row.importable) co_return std::unexpected(not_usable(text, found.row));
  const auto imported = co_await on_pool(
      core->parts_.pool, [this, row = found.row, go_on = core->go_on_]() -> Result<std::string> {
        models::ImportRequest request{.path = row.paths.front().string(), .mode = "reference"};
        std::vector<std::string> ids;
        if (!row.catalog_match.empty()) ids.push_back(row.catalog_match);
        for (int number = 1; number <= kIdTries; ++number)
          ids.push_back(models::numbered_id(row.suggested_id, number));
        if (row.catalog_match.empty()) request.name = row.name;
        Result<std::string> out =
            fail(ErrorKind::conflict, "model_exists", "no id is free for this model", "model");
        for (const auto& candidate : ids) {
          request.id = candidate;
          auto model = core_.store_.import(request, [&](Bytes) { return go_on->load(); });
          if (model) {
            lift_quarantine(core_.options_.home, core_.parts_.clock, model->id);
            return model->id;
          }
          out = std::unexpected(model.error());
          if (model.error().code != "model_exists") break;
        }
        return out;
      });
  if (core->stopping_) co_return std::unexpected(api::shutting_down());
  co_await core->refresh();
  if (imported) {
    log_info("a model of another program is used by reference",
             {{"source", found.row.source}, {"model", *imported}});
    core->verify_soon();
    co_return ModelName{std::string(kLlamaProvider), *imported};
  }
  // Somebody else imported it since the last look.
  if (auto known = installed(); !known.empty())
    co_return ModelName{std::string(kLlamaProvider), std::move(known)};
  co_return std::unexpected(public_error(imported.error()));
}

asio::awaitable<void> CoreInstalls::know_shelf() {
  const auto core = core_.shared_from_this();
  if (!shelf_ && !core->stopping_) co_await arrange();
}

std::optional<models::InstallProgress> CoreInstalls::running() const {
  const auto installs = jobs_.active();
  if (installs.empty()) return std::nullopt;
  const auto& first = installs.front();
  return models::InstallProgress{.id = first.id,
                                 .bytes_written = first.bytes_written,
                                 .total_bytes = first.total_bytes,
                                 .downloading = first.phase == models::JobPhase::downloading};
}

std::optional<ModelName> CoreInstalls::by_alias(std::string_view text) const {
  const auto id = llama_id(text);
  if (!id || !shelf_ || core_.installed(*id) != nullptr) return std::nullopt;
  // Of several models that an old name could mean, the pinned one is meant.
  const auto normalise = [&](std::string_view name) {
    for (const auto& [target, names] : shelf_->aliases) {
      if (std::ranges::find(names, name) != names.end()) return target;
    }
    return std::string(name);
  };
  if (const auto pinned =
          models::match_bare_name(*id, core_.pins_, catalog::preferred_backend(parts_->host), normalise);
      pinned && pinned->backend == Backend::llama_cpp && core_.installed(pinned->id) != nullptr &&
      !is_removing(pinned->id))
    return ModelName{std::string(kLlamaProvider), pinned->id};
  for (const auto& [target, names] : shelf_->aliases) {
    if (std::ranges::find(names, *id) == names.end() || is_removing(target)) continue;
    if (core_.installed(target) != nullptr) return ModelName{std::string(kLlamaProvider), target};
  }
  return std::nullopt;
}

asio::awaitable<api::ApiResult<ModelName>> CoreInstalls::by_catalog(std::string text,
                                                                    api::ApiError otherwise) {
  const auto core = core_.shared_from_this();
  const auto id = llama_id(text);
  if (!id || !models::is_store_safe_id(*id) || core->stopping_)
    co_return std::unexpected(std::move(otherwise));
  struct Known {
    std::string id;
    Bytes size = 0;
    bool runs = false;
  };
  const ServiceCore::Busy busy(core);
  const auto known = co_await on_pool(
      core->parts_.pool, [parts = parts_, wanted = std::string(*id)]() -> std::optional<Known> {
        const auto name = parts->catalog->normalise(wanted);
        if (!name) return std::nullopt;
        const auto item = parts->catalog->get(catalog::Kind::chat_model, *name);
        if (!item) return std::nullopt;
        const auto backend = catalog::choose_backend(*item->version, parts->host);
        return Known{
            *name,
            item->version->llama_cpp ? item->version->llama_cpp->size_bytes : item->version->size_bytes,
            backend == Backend::llama_cpp};
      });
  if (!known) co_return std::unexpected(std::move(otherwise));
  if (core->installed(known->id) != nullptr) co_return ModelName{std::string(kLlamaProvider), known->id};
  const std::string qualified = catalog::qualified_id(Backend::llama_cpp, known->id);
  const auto installs = jobs_.active();
  const auto running = std::ranges::find_if(installs, [&](const auto& each) { return each.id == known->id; });
  if (running != installs.end()) {
    otherwise.message = fmt::format(
        "the model \"{}\" is being installed: {} % are there. Repeat the request when it is done "
        "(GET /v1/models/ensure/{}/events tells when)",
        qualified, models::percent_done(running->bytes_written, running->total_bytes), running->job_id);
  } else if (known->runs) {
    otherwise.message = fmt::format(
        "the model \"{0}\" is not installed; no request downloads a model. Install it ({1}from its "
        "publisher) with "
        "`gezel pull {2}`, or POST /v1/models/ensure {{\"model\":\"{0}\"}}",
        qualified, size_text(known->size), known->id);
  }
  co_return std::unexpected(std::move(otherwise));
}

}  // namespace gezel::service
