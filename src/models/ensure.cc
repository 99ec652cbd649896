#include "models/ensure.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "models/ids.h"

namespace gezel::models {
namespace {

using catalog::Backend;

std::unexpected<Error> bad(ErrorKind kind, std::string code, std::string message) {
  return fail(kind, std::move(code), std::move(message), "model");
}

std::string offer(const std::vector<std::string>& ids) {
  return ids.empty() ? "; no other build of it runs on this host"
                     : fmt::format("; use {}", fmt::join(ids, " or "));
}

catalog::Kind kind_of(Backend backend) {
  return backend == Backend::sd_cpp ? catalog::Kind::image_model : catalog::Kind::chat_model;
}

Result<catalog::Resolved> look_up(Backend backend, const std::string& id, const catalog::Catalog& catalog) {
  auto found = catalog.get(kind_of(backend), id);
  if (!found && backend == Backend::sd_cpp && found.error().kind == ErrorKind::not_found)
    return catalog.get(catalog::Kind::image_lora, id);
  return found;
}

}  // namespace

Result<Ensured> check_ensure(std::string_view model, const catalog::Catalog& catalog,
                             const catalog::Host& host,
                             const std::function<bool(Backend, std::string_view)>& installed) {
  auto id = catalog::parse_qualified_id(model);
  if (!id || !is_store_safe_id(id->id)) {
    return bad(
        ErrorKind::invalid, "ambiguous_model",
        fmt::format("\"{}\" does not say which engine is meant; write llama-cpp:<id>, mlx:<id> or ds4:<id>",
                    model.substr(0, 200)));
  }
  Ensured out{*id, installed(id->backend, id->id), {}};
  if (out.ready) return out;
  if (id->backend != Backend::sd_cpp) {
    // An old id means its successor, which may be there.
    GEZEL_TRY(out.id.id, catalog.normalise(id->id));
    out.ready = installed(out.id.backend, out.id.id);
    if (out.ready) return out;
  }
  auto resolved = look_up(out.id.backend, out.id.id, catalog);
  if (!resolved && resolved.error().kind != ErrorKind::not_found)
    return std::unexpected(std::move(resolved).error());
  if (!resolved) {
    return bad(
        ErrorKind::not_found, "unknown_model",
        fmt::format("\"{}\" is not in the catalog; list what can be installed, or import a file", id->id));
  }
  const auto working = catalog::working_ids(*resolved->item, *resolved->version, host);
  if (!catalog::has_source(out.id.backend, *resolved->version)) {
    return bad(ErrorKind::invalid, "no_source_for_backend",
               fmt::format("\"{}\" has no {} build that works{}", out.id.id, to_string(out.id.backend),
                           offer(working)));
  }
  if (!catalog::can_run(out.id.backend, host)) {
    return bad(ErrorKind::invalid, "unsupported_backend",
               fmt::format("{} cannot run on this host{}", to_string(out.id.backend), offer(working)));
  }
  out.resolved = std::move(*resolved);
  return out;
}

bool is_resumable(std::string_view id, Backend backend, const catalog::Catalog& catalog) {
  const auto found = look_up(backend, std::string(id), catalog);
  return found && catalog::has_source(backend, *found->version);
}

}  // namespace gezel::models
