// http/routes.h
//
// The routes of the main listener as data. Adding one is adding a row in routes.cc.
#pragma once
#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "api/error.h"
#include "api/exchange.h"
#include "http/services.h"

namespace gezel::http {

struct Route;

// One admitted request as a handler sees it.
struct Call {
  Services& services;
  const Route& route;
  api::Request request;
  api::Response& response;  // adds the common headers itself
  service::Credential caller;
  std::string request_id;
  std::string path_tail;  // decoded text after a prefix route
  bool stopping = false;

  asio::awaitable<void> reply(int status, std::string json_body, api::Headers headers = {});
  // An error in the route's form. Inside a stream that has begun: as an error event that ends it.
  asio::awaitable<void> fail(const api::ApiError& error);
  // What fail() writes into the log of an error that is the server's; for handlers that word it themselves.
  void log_failure(const api::ApiError& error) const;
};

// How errors of a route look (spec 10 section 3.1).
enum class ErrorForm { envelope, flat };

struct Route {
  std::string_view method;
  std::string_view path;   // a path that ends in "/*" matches everything below it
  std::string_view scope;  // "" = open to everyone
  std::uint64_t body_limit;
  ErrorForm errors;
  asio::awaitable<void> (*handler)(Call&);
  bool streams_body = false;  // the handler reads the body itself, in pieces
};

std::span<const Route> routes();

// The route for a path as sent (still percent-encoded); `allow` lists the methods of that path, empty = no
// such path.
struct RouteMatch {
  const Route* route = nullptr;
  std::string allow;
  std::string_view tail;
};
RouteMatch find_route(std::string_view method, std::string_view path);

// The body of an error in the form that a path's answers have: flat under /api, an envelope elsewhere.
ErrorForm error_form(std::string_view path);

// Handlers.
asio::awaitable<void> chat_completions(Call& call);
asio::awaitable<void> responses(Call& call);
asio::awaitable<void> list_models(Call& call);
asio::awaitable<void> retrieve_model(Call& call);
asio::awaitable<void> health(Call& call);
asio::awaitable<void> memory(Call& call);
asio::awaitable<void> memory_plan(Call& call);
asio::awaitable<void> ps(Call& call);
asio::awaitable<void> stats(Call& call);
asio::awaitable<void> cache_nodes(Call& call);
asio::awaitable<void> cache_node(Call& call);
asio::awaitable<void> cache_stats(Call& call);
asio::awaitable<void> evict_session(Call& call);
asio::awaitable<void> clear_cache(Call& call);
asio::awaitable<void> change_cache(Call& call);  // the last word of the path says how
asio::awaitable<void> stop_model(Call& call);
asio::awaitable<void> tuned(Call& call);
asio::awaitable<void> tune_model(Call& call);
asio::awaitable<void> describe_default(Call& call);
asio::awaitable<void> pin_default(Call& call);
asio::awaitable<void> catalog_items(Call& call);
asio::awaitable<void> catalog_updates(Call& call);
asio::awaitable<void> check_catalog(Call& call);
asio::awaitable<void> set_catalog_updates(Call& call);
asio::awaitable<void> import_model(Call& call);
asio::awaitable<void> quarantine(Call& call);
asio::awaitable<void> clear_quarantine(Call& call);
asio::awaitable<void> ensure_model(Call& call);
asio::awaitable<void> ensure_job(Call& call);  // also its events
asio::awaitable<void> installed_models(Call& call);
asio::awaitable<void> incomplete_models(Call& call);
asio::awaitable<void> active_installs(Call& call);
asio::awaitable<void> install_model(Call& call);
asio::awaitable<void> delete_model(Call& call);  // also the cancellation of its install
asio::awaitable<void> discovered_models(Call& call);
asio::awaitable<void> export_bundle(Call& call);
asio::awaitable<void> scan_bundle(Call& call);
asio::awaitable<void> bundle_progress(Call& call);
asio::awaitable<void> confirm_bundle(Call& call);
asio::awaitable<void> discard_bundle(Call& call);
asio::awaitable<void> rotate_key(Call& call);
asio::awaitable<void> shutdown(Call& call);

}  // namespace gezel::http
