#include "http/routes.h"

#include <array>

#include "base/bytes.h"

namespace gezel::http {
namespace {

constexpr std::uint64_t kSmallBody = kMiB;
constexpr std::uint64_t kChatBody = 64 * kMiB;
constexpr std::uint64_t kResponsesBody = 16 * kMiB;
constexpr std::uint64_t kBundleBody = std::uint64_t{2} << 40;

constexpr std::array kRoutes{
    Route{"POST", "/v1/chat/completions", "openai", kChatBody, ErrorForm::envelope, chat_completions},
    Route{"POST", "/v1/responses", "openai", kResponsesBody, ErrorForm::envelope, responses},
    Route{"GET", "/v1/models", "openai", kSmallBody, ErrorForm::envelope, list_models},
    Route{"POST", "/v1/models/ensure", "openai", kSmallBody, ErrorForm::envelope, ensure_model},
    Route{"GET", "/v1/models/ensure/*", "openai", kSmallBody, ErrorForm::envelope, ensure_job},
    Route{"GET", "/v1/models/*", "openai", kSmallBody, ErrorForm::envelope, retrieve_model},
    Route{"GET", "/v1/memory", "openai", kSmallBody, ErrorForm::envelope, memory},
    Route{"GET", "/v1/memory/plan", "openai", kSmallBody, ErrorForm::envelope, memory_plan},
    Route{"GET", "/health", "", kSmallBody, ErrorForm::flat, health},
    Route{"GET", "/v1/health", "", kSmallBody, ErrorForm::flat, health},
    Route{"GET", "/api/health", "", kSmallBody, ErrorForm::flat, health},
    Route{"GET", "/api/ps", "ui", kSmallBody, ErrorForm::flat, ps},
    Route{"GET", "/api/stats", "ui", kSmallBody, ErrorForm::flat, stats},
    Route{"GET", "/api/cache", "ui", kSmallBody, ErrorForm::flat, cache_nodes},
    Route{"GET", "/api/cache/stats", "ui", kSmallBody, ErrorForm::flat, cache_stats},
    Route{"POST", "/api/cache/evict", "ui", kSmallBody, ErrorForm::flat, evict_session},
    Route{"POST", "/api/cache/clear", "ui", kSmallBody, ErrorForm::flat, clear_cache},
    Route{"POST", "/api/cache/warm", "ui", kChatBody, ErrorForm::flat, change_cache},
    Route{"POST", "/api/cache/explain", "ui", kChatBody, ErrorForm::flat, change_cache},
    Route{"POST", "/api/cache/pin", "ui", kSmallBody, ErrorForm::flat, change_cache},
    Route{"POST", "/api/cache/unpin", "ui", kSmallBody, ErrorForm::flat, change_cache},
    Route{"POST", "/api/cache/drop", "ui", kSmallBody, ErrorForm::flat, change_cache},
    Route{"POST", "/api/cache/flush", "ui", kSmallBody, ErrorForm::flat, change_cache},
    Route{"GET", "/api/cache/*", "ui", kSmallBody, ErrorForm::flat, cache_node},
    Route{"POST", "/api/stop", "ui", kSmallBody, ErrorForm::flat, stop_model},
    Route{"GET", "/api/tune", "ui", kSmallBody, ErrorForm::flat, tuned},
    Route{"POST", "/api/tune", "ui", kSmallBody, ErrorForm::flat, tune_model},
    Route{"GET", "/api/quarantine", "ui", kSmallBody, ErrorForm::flat, quarantine},
    Route{"POST", "/api/quarantine/clear", "ui", kSmallBody, ErrorForm::flat, clear_quarantine},
    Route{"POST", "/api/models/import", "ui", kSmallBody, ErrorForm::flat, import_model},
    Route{"GET", "/api/models/discovered", "ui", kSmallBody, ErrorForm::flat, discovered_models},
    Route{"GET", "/api/llama-cpp/models", "ui", kSmallBody, ErrorForm::flat, installed_models},
    Route{"GET", "/api/llama-cpp/active-installs", "ui", kSmallBody, ErrorForm::flat, active_installs},
    Route{"GET", "/api/llama-cpp/incomplete", "ui", kSmallBody, ErrorForm::flat, incomplete_models},
    Route{"POST", "/api/llama-cpp/models/*", "ui", kSmallBody, ErrorForm::flat, install_model},
    Route{"DELETE", "/api/llama-cpp/models/*", "ui", kSmallBody, ErrorForm::flat, delete_model},
    Route{"POST", "/api/model-bundles/imports/scan", "ui", kBundleBody, ErrorForm::flat, scan_bundle, true},
    Route{"POST", "/api/model-bundles/imports/confirm", "ui", kSmallBody, ErrorForm::flat, confirm_bundle},
    Route{"GET", "/api/model-bundles/imports/*", "ui", kSmallBody, ErrorForm::flat, bundle_progress},
    Route{"DELETE", "/api/model-bundles/imports/*", "ui", kSmallBody, ErrorForm::flat, discard_bundle},
    Route{"GET", "/api/model-bundles/*", "ui", kSmallBody, ErrorForm::flat, export_bundle},
    Route{"GET", "/api/catalog/*", "ui", kSmallBody, ErrorForm::flat, catalog_items},
    Route{"GET", "/api/catalog-updates", "ui", kSmallBody, ErrorForm::flat, catalog_updates},
    Route{"POST", "/api/catalog-updates", "ui", kSmallBody, ErrorForm::flat, set_catalog_updates},
    Route{"POST", "/api/catalog-updates/check", "ui", kSmallBody, ErrorForm::flat, check_catalog},
    Route{"GET", "/api/default-model", "ui", kSmallBody, ErrorForm::flat, describe_default},
    Route{"POST", "/api/default-model", "ui", kSmallBody, ErrorForm::flat, pin_default},
    Route{"POST", "/api/key/rotate", "ui", kSmallBody, ErrorForm::flat, rotate_key},
    Route{"POST", "/api/shutdown", "ui", kSmallBody, ErrorForm::flat, shutdown},
};

// The text below a prefix route, or the empty text for an exact one; nothing when the path is another.
std::optional<std::string_view> match_path(std::string_view pattern, std::string_view path) {
  if (!pattern.ends_with("/*")) return pattern == path ? std::optional<std::string_view>("") : std::nullopt;
  pattern.remove_suffix(1);
  if (!path.starts_with(pattern) || path.size() == pattern.size()) return std::nullopt;
  return path.substr(pattern.size());
}

}  // namespace

std::span<const Route> routes() {
  return kRoutes;
}

RouteMatch find_route(std::string_view method, std::string_view path) {
  RouteMatch match;
  for (const Route& route : kRoutes) {
    const auto tail = match_path(route.path, path);
    if (!tail) continue;
    // Whatever can be fetched can be asked for its head.
    const bool head = method == "HEAD" && route.method == "GET";
    if (match.route == nullptr && (route.method == method || head)) {
      match.route = &route;
      match.tail = *tail;
    }
    if (!match.allow.empty()) match.allow += ", ";
    match.allow += route.method;
    if (route.method == "GET") match.allow += ", HEAD";
  }
  return match;
}

ErrorForm error_form(std::string_view path) {
  return path.starts_with("/api/") ? ErrorForm::flat : ErrorForm::envelope;
}

}  // namespace gezel::http
