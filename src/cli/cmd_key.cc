#include <array>
#include <ostream>

#include "cli/command.h"
#include "cli/daemon_client.h"
#include "cli/printer.h"
#include "service/credentials.h"

namespace gezel::cli {
namespace {

constexpr std::array kFlags{
    Flag{.name = "--rotate", .help = "make a new key; the old one stops working at once"},
    Flag{.name = "--json", .help = "print {\"key\": ...}"},
};

Result<std::string> rotate(const Environment& env) {
  if (service::find_daemon(env.home)) {
    GEZEL_TRY(const DaemonClient client, DaemonClient::connect(env));
    GEZEL_CHECK(client.post("/api/key/rotate", {}));
    // The reply has it too; the file is where every later `gezel key` takes it from.
    return service::read_or_create_api_key(env.home, *env.clock, *env.entropy);
  }
  GEZEL_TRY(const service::InstanceLock lock, service::InstanceLock::acquire(env.home));
  GEZEL_TRY(const auto credentials, service::Credentials::open(env.home, *env.clock, *env.entropy));
  return credentials->rotate_api_key();
}

int run(Environment& env, const Arguments& arguments) {
  const Interrupt interrupt;
  const auto key = arguments.has("--rotate")
                       ? rotate(env)
                       : service::read_or_create_api_key(env.home, *env.clock, *env.entropy);
  if (!key) return print_error(env, key.error());
  if (arguments.has("--rotate")) print_note(env, "programs that use the old key must be given this one:");
  if (arguments.has("--json")) {
    *env.out << to_json(json::object{{"key", *key}}) << '\n' << std::flush;
  } else {
    *env.out << *key << '\n' << std::flush;
  }
  return kOk;
}

}  // namespace

constexpr Command kKey{.name = "key",
                       .summary = "print the API key for OpenAI clients",
                       .description = "The key survives restarts. Commands of gezel itself do not need it.",
                       .examples =
                           "gezel key  # print it\n"
                           "export OPENAI_API_KEY=$(gezel key) OPENAI_BASE_URL=http://127.0.0.1:6228/v1  # "
                           "for the official clients\n"
                           "gezel key --rotate  # replace it",
                       .positionals = {},
                       .flags = kFlags,
                       .run = run};

}  // namespace gezel::cli
