#include "service/install_parts.h"

#include <fmt/format.h>

#include <boost/asio/thread_pool.hpp>

#include "downloads/local_files.h"
#include "downloads/timed_client.h"
#include "downloads/url.h"
#include "system/memory.h"

namespace gezel::service {
namespace {

namespace asio = boost::asio;

constexpr std::size_t kDownloadThreads = 4;
constexpr Millis kDocumentLimit{30'000};

struct InstallWorld {
  InstallWorld(downloads::CurlOptions options, const Clock& clock, Entropy& entropy)
      : network(std::move(options), clock),
        files(network),
        transfers(files, waiter, entropy),
        timed(network, clock, kDocumentLimit),
        document_files(timed),
        documents(document_files, waiter, entropy) {}

  downloads::CurlClient network;
  downloads::LocalFiles files;
  downloads::RealWaiter waiter;
  downloads::Transfers transfers;
  downloads::TimedClient timed;
  downloads::LocalFiles document_files;
  downloads::Transfers documents;
  asio::thread_pool downloads{kDownloadThreads};
  asio::thread_pool questions{1}, headers{1};
};

#if defined(__APPLE__)
constexpr auto kSystem = catalog::HostSystem::macos;
constexpr auto kPlatform = capacity::Platform::macos;
#else
constexpr auto kSystem = catalog::HostSystem::linux;
constexpr auto kPlatform = capacity::Platform::linux_os;
#endif
#if defined(__aarch64__)
constexpr bool kArm64 = true;
#else
constexpr bool kArm64 = false;
#endif

// The embedded engine uses no GPU, so the machine is its main memory.
std::optional<capacity::MemoryProfile> profile_of_machine(std::optional<Bytes> budget) {
  const auto memory = system::read_memory();
  if (memory.total == 0) return std::nullopt;
  capacity::HostFacts host;
  host.platform = kPlatform;
  host.arm64 = kArm64;
  host.total_ram = memory.total;
  host.budget_override = budget;
  return capacity::plan_profile(host);
}

std::string without_end_slashes(std::string text) {
  while (text.ends_with('/')) text.pop_back();
  return text;
}

}  // namespace

std::vector<std::string> read_address_list(std::string_view text) {
  std::vector<std::string> out;
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    std::string_view word = text.substr(0, comma);
    while (word.starts_with(' ')) word.remove_prefix(1);
    while (word.ends_with(' ')) word.remove_suffix(1);
    if (!word.empty()) out.emplace_back(word);
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
  }
  return out;
}

Result<> check_addresses(const InstallSettings& settings) {
  const auto check = [](std::string_view variable, const std::string& text) -> Result<> {
    if (const auto url = downloads::parse_source(text); !url) {
      return fail(ErrorKind::invalid, "bad_url",
                  fmt::format("{}: {}; it must be an https:// address (http:// on this machine only) or "
                              "file:///folder",
                              variable, url.error().message));
    }
    return {};
  };
  if (!settings.hub.empty()) GEZEL_CHECK(check("HF_ENDPOINT", settings.hub));
  for (const auto& mirror : settings.mirrors) GEZEL_CHECK(check("GEZEL_HUB_MIRRORS", mirror));
  return {};
}

catalog::CatalogOptions catalog_options(const std::filesystem::path& home, const InstallSettings& settings) {
  catalog::CatalogOptions out{.user_folder = home / "catalog",
                              .override_folder = settings.catalog_override,
                              .live_folder = home / "catalog-live"};
  out.service.ignore_floors = settings.ignore_catalog_floors;
  return out;
}

std::shared_ptr<InstallParts> make_install_parts(const std::filesystem::path& home,
                                                 const InstallSettings& settings,
                                                 std::optional<Bytes> memory_budget,
                                                 const std::string& version, const Clock& clock,
                                                 Entropy& entropy) {
  const auto world = std::make_shared<InstallWorld>(
      downloads::CurlOptions{.user_agent = fmt::format("gezel-inference/{}", version),
                             .proxy = settings.proxy},
      clock, entropy);
  auto out = std::make_shared<InstallParts>();
  out->keep_alive = world;
  out->downloads = world->downloads.get_executor();
  out->questions = world->questions.get_executor();
  out->headers = world->headers.get_executor();
  out->catalog = std::make_shared<const catalog::Catalog>(catalog_options(home, settings));
  out->transfers = std::shared_ptr<const downloads::Transfers>(world, &world->transfers);
  out->documents = std::shared_ptr<const downloads::Transfers>(world, &world->documents);
  if (!settings.hub.empty()) out->hub.base = without_end_slashes(settings.hub);
  for (const auto& mirror : settings.mirrors) out->hub.mirrors.push_back(without_end_slashes(mirror));
  if (const auto url = downloads::parse_source(out->hub.base); url && !settings.hub_token.empty())
    out->token = {url->origin(), settings.hub_token};
  out->host = {.system = kSystem, .arm64 = kArm64};
  out->profile = [memory_budget] { return profile_of_machine(memory_budget); };
  if (settings.discovery) {
    out->discover = [roots = settings.discovery_roots, catalog = out->catalog](std::stop_token stop) {
      auto items = catalog->list(catalog::Kind::chat_model);
      return models::discover(
          roots, models::match_catalog(items ? std::move(*items) : std::vector<catalog::Resolved>()),
          std::move(stop));
    };
  }
  // The shared world must not be destroyed by one of its own threads, so this is called before it goes.
  out->drain = [world = world.get()] {
    world->headers.join();
    world->questions.join();
    world->downloads.join();
  };
  return out;
}

}  // namespace gezel::service
