// `gezel cache`: what loaded models keep of prompts, and what may be done about it.
#include <fmt/format.h>

#include <array>
#include <ostream>

#include "base/files.h"
#include "cli/command.h"
#include "cli/console.h"
#include "cli/daemon_client.h"
#include "cli/model_names.h"
#include "cli/printer.h"
#include "cli/table.h"
#include "downloads/url.h"

namespace gezel::cli {
namespace {

constexpr Bytes kMostMessages = 64 * kMiB;
constexpr Millis kPatience{150'000};  // longer than the daemon waits for the engine

constexpr std::array kPositionals{
    Positional{.name = "ACTION",
               .help = "list, show, explain, warm, pin, unpin, drop or flush",
               .completes = Completes::choice,
               .choices = "list|show|explain|warm|pin|unpin|drop|flush"},
    Positional{.name = "MODEL",
               .help = "a loaded model; may be left out while one only is loaded",
               .required = false,
               .completes = Completes::loaded_model},
    Positional{.name = "WHAT",
               .help = "show, pin, unpin, drop: the number of a node; explain, warm: what a user would say",
               .required = false},
};
constexpr std::array kFlags{
    Flag{.name = "--session",
         .kind = Flag::Kind::text,
         .value = "NAME",
         .help = "pin, unpin, drop: all that this session uses; warm: whose prompt it is"},
    Flag{.name = "--app",
         .kind = Flag::Kind::text,
         .value = "ID",
         .help = "the application whose session it is; without it that of the API key"},
    Flag{.name = "--system",
         .kind = Flag::Kind::text,
         .value = "TEXT",
         .help = "explain, warm: the system text of the prompt"},
    Flag{.name = "--messages",
         .kind = Flag::Kind::text,
         .value = "FILE",
         .help =
             "explain, warm: the prompt as a chat request or a JSON array of messages; - is standard input",
         .completes = Completes::file},
    Flag{.name = "--start", .help = "warm: load the model if it is not loaded"},
    Flag{.name = "--json", .help = "print what the daemon says as JSON"},
};

std::unexpected<Error> usage(std::string message) {
  return fail(ErrorKind::invalid, std::string(kCodeUsage), std::move(message));
}

// The model that is meant: as named, or the only one that is loaded.
Result<std::string> find_model(const DaemonClient& client, const std::string& named) {
  if (!named.empty()) {
    GEZEL_TRY(const std::vector<std::string> known, offered_models(client));
    return resolve_model(named, known);
  }
  GEZEL_TRY(const json::value reply, client.get("/api/ps"));
  std::vector<std::string> loaded;
  if (const json::array* models = reply.is_object() ? array_at(reply.get_object(), "models") : nullptr) {
    for (const json::value& model : *models) {
      if (model.is_object() && string_or(model.get_object(), "state") == "ready")
        loaded.push_back(string_or(model.get_object(), "id"));
    }
  }
  if (loaded.size() == 1) return loaded.front();
  if (loaded.empty())
    return fail(ErrorKind::not_found, "model_not_loaded",
                "No model is loaded; a model keeps prompts while it is. Name one, or ask it something first");
  std::string names;
  for (const std::string& id : loaded) names += (names.empty() ? "" : ", ") + short_name(id);
  return usage(fmt::format("Several models are loaded ({}); name the one you mean", names));
}

// What a file holds of a request: a chat request as it is, or its messages.
Result<json::object> read_messages(const Environment& env, const std::string& file) {
  std::string text;
  if (file == "-") {
    GEZEL_TRY(text, read_input(env.input, kMostMessages, [] { return true; }));
  } else {
    GEZEL_TRY(text, read_file(file, kMostMessages));
  }
  GEZEL_TRY(json::value value, parse_json(text));
  if (value.is_array()) return json::object{{"messages", std::move(value)}};
  if (value.is_object() && array_at(value.get_object(), "messages") != nullptr)
    return std::move(value.get_object());
  return usage(fmt::format("{} must hold a chat request or a JSON array of messages", file));
}

Result<json::object> prompt_body(const Environment& env, const Arguments& arguments) {
  json::object body;
  if (arguments.has("--messages")) {
    GEZEL_TRY(body, read_messages(env, arguments.text("--messages")));
  }
  json::array messages;
  if (arguments.has("--system"))
    messages.push_back(json::object{{"role", "system"}, {"content", arguments.text("--system")}});
  if (const json::array* given = array_at(body, "messages"))
    messages.insert(messages.end(), given->begin(), given->end());
  if (arguments.has("WHAT"))
    messages.push_back(json::object{{"role", "user"}, {"content", arguments.text("WHAT")}});
  if (messages.empty())
    return usage(fmt::format("gezel cache {} needs a prompt: what a user would say, --system or --messages",
                             arguments.text("ACTION")));
  body["messages"] = std::move(messages);
  return body;
}

Result<std::int64_t> node_number(const Arguments& arguments) {
  const auto number = arguments.integer("WHAT");
  if (number && *number > 0) return *number;
  return usage(
      fmt::format("'{}' is no node; `gezel cache list` shows their numbers", arguments.text("WHAT")));
}

Result<json::object> target_body(const Arguments& arguments) {
  if (arguments.has("--session")) {
    if (arguments.has("WHAT")) return usage("Name a node or a --session, not both");
    return json::object{{"session", arguments.text("--session")}};
  }
  if (!arguments.has("WHAT"))
    return usage(fmt::format("gezel cache {} needs a MODEL and the number of a node, or a --session",
                             arguments.text("ACTION")));
  GEZEL_TRY(const std::int64_t number, node_number(arguments));
  return json::object{{"id", number}};
}

std::string bytes_text(const json::object& node, std::string_view tier) {
  const auto* bytes = object_at(node, "bytes");
  const auto size = bytes == nullptr ? 0 : int_or(*bytes, tier, 0);
  return size > 0 ? format_bytes(static_cast<Bytes>(size)) : "-";
}

std::string number_or_dash(const json::object& object, std::string_view name) {
  const auto* value = object.if_contains(name);
  return value == nullptr || value->is_null() ? "-" : std::to_string(int_or(object, name, 0));
}

void print_nodes(const Environment& env, const json::array& nodes) {
  std::vector<std::vector<std::string>> rows;
  for (const json::value& value : nodes) {
    if (!value.is_object()) continue;
    const json::object& node = value.get_object();
    rows.push_back({std::to_string(int_or(node, "id", 0)), number_or_dash(node, "parent"),
                    fmt::format("{}..{}", int_or(node, "start", 0), int_or(node, "end", 0)),
                    string_or(node, "class"), std::to_string(int_or(node, "hits", 0)),
                    std::to_string(int_or(node, "pins", 0)), number_or_dash(node, "slot"),
                    bytes_text(node, "host"), bytes_text(node, "disk"), string_or(node, "last_use")});
  }
  *env.out << render_table({{"NODE", Align::right},
                            {"PARENT", Align::right},
                            {"TOKENS"},
                            {"CLASS"},
                            {"HITS", Align::right},
                            {"PINS", Align::right},
                            {"SLOT", Align::right},
                            {"MEMORY", Align::right},
                            {"DISK", Align::right},
                            {"LAST USED"}},
                           rows);
}

// A piece of a prompt on one line, in quotes.
std::string quoted(const json::object& object, std::string_view name) {
  return terminal_text(to_json(json::value(string_or(object, name))));
}

void print_explained(const Environment& env, const json::object& reply) {
  *env.out << fmt::format("{} of this prompt's {} tokens are kept\n",
                          group_digits(int_or(reply, "reusable_tokens", 0)),
                          group_digits(int_or(reply, "prompt_tokens", 0)));
  const json::object* found = object_at(reply, "prefix_break");
  if (found == nullptr) {
    *env.out << "it leaves nothing that was computed before\n";
    return;
  }
  const std::string at = number_or_dash(*found, "at_message");
  *env.out << fmt::format("an earlier one of {} tokens begins the same for {}, then they part{}\n",
                          group_digits(int_or(*found, "previous", 0)),
                          group_digits(int_or(*found, "matched", 0)),
                          at == "-" ? std::string() : " in message " + at);
  if (const json::object* text = object_at(*found, "snippets")) {
    *env.out << fmt::format("  both     {}\n  now      {}\n  earlier  {}\n", quoted(*text, "before"),
                            quoted(*text, "now"), quoted(*text, "then"));
  }
}

void print_reply(const Environment& env, std::string_view action, const json::object& reply) {
  const auto nodes = int_or(reply, "nodes", 0);
  const std::string counted = fmt::format("{} {}", nodes, nodes == 1 ? "node" : "nodes");
  if (action == "list") {
    const json::array* listed = array_at(reply, "nodes");
    if (listed == nullptr || listed->empty()) {
      print_note(env, fmt::format("{} keeps nothing yet", short_name(string_or(reply, "model"))));
      return;
    }
    print_nodes(env, *listed);
    const auto count = int_or(reply, "count", 0);
    if (count > static_cast<std::int64_t>(listed->size()))
      print_note(env, fmt::format("the {} last used of {} nodes", listed->size(), group_digits(count)));
  } else if (action == "show") {
    print_nodes(env, {reply});
    *env.out << '\n' << terminal_text(string_or(reply, "text")) << '\n';
  } else if (action == "explain") {
    print_explained(env, reply);
  } else if (action == "warm") {
    if (!reply.contains("prompt_tokens")) {
      print_note(env, "the model is not loaded, so nothing was computed; --start loads it");
    } else {
      const auto tokens = int_or(reply, "prompt_tokens", 0), cached = int_or(reply, "cached_tokens", 0);
      print_note(env, fmt::format("{} tokens are kept, {} of them were there already", group_digits(tokens),
                                  group_digits(cached)));
    }
  } else if (action == "flush") {
    print_note(env, fmt::format("{} records written", int_or(reply, "records", 0)));
  } else {
    const std::string_view done = action == "drop"  ? "dropped"
                                  : action == "pin" ? "pinned"
                                                    : "no longer pinned";
    print_note(env, fmt::format("{} {}", counted, done));
  }
}

Result<json::value> ask(const Environment& env, const DaemonClient& client, const Arguments& arguments) {
  const std::string action = arguments.text("ACTION");
  // What is wrong with the words is said before anything is asked.
  json::object body;
  std::int64_t number = 0;
  const bool prompt = action == "explain" || action == "warm";
  if (prompt) {
    GEZEL_TRY(body, prompt_body(env, arguments));
    if (arguments.has("--session")) body["session"] = arguments.text("--session");
  } else if (action == "show") {
    if (!arguments.has("WHAT")) return usage("gezel cache show needs a MODEL and the number of a node");
    GEZEL_TRY(number, node_number(arguments));
  } else if (action != "list" && action != "flush") {
    GEZEL_TRY(body, target_body(arguments));
  }
  GEZEL_TRY(const std::string model, find_model(client, arguments.text("MODEL")));
  const std::string query = "?model=" + downloads::percent_encoded(model);
  if (action == "list") return client.get("/api/cache" + query, kPatience);
  if (action == "show") return client.get(fmt::format("/api/cache/{}{}", number, query), kPatience);
  body["model"] = model;
  if (arguments.has("--app")) body["app"] = arguments.text("--app");
  if (action != "warm") return client.post("/api/cache/" + action, body, kPatience);
  body["wait"] = true;
  body["start"] = arguments.has("--start");
  StatusLine status(env);
  return client.post("/api/cache/warm", body, Millis(0), [&](Millis waited) {
    if (waited > Millis(400)) status.show(fmt::format("computing … {} s", waited.count() / 1'000));
  });
}

int run(Environment& env, const Arguments& arguments) {
  const Interrupt interrupt;
  const auto client =
      arguments.has("--start") ? DaemonClient::connect_or_start(env) : DaemonClient::connect(env);
  if (!client) return print_error(env, client.error());
  const auto reply = ask(env, *client, arguments);
  if (!reply) return print_error(env, reply.error());
  if (arguments.has("--json")) {
    *env.out << to_json(*reply) << '\n';
  } else if (reply->is_object()) {
    print_reply(env, arguments.text("ACTION"), reply->get_object());
  }
  *env.out << std::flush;
  return kOk;
}

}  // namespace

constexpr Command kCache{
    .name = "cache",
    .summary = "show what loaded models keep of prompts; compute ahead, pin, drop",
    .description =
        "A prompt is computed once: what several begin with is kept as a tree of nodes, in slots, in memory "
        "and "
        "on disk. `explain` shows where a prompt leaves what is kept, which finds date stamps and reordered "
        "tools. `warm` computes a prompt before anybody waits for it. Pinned nodes are kept until they are "
        "unpinned, also over a restart. Nothing but `warm --start` loads a model.",
    .examples =
        "gezel cache list smollm2-135m-instruct  # nodes, from the first token on\n"
        "gezel cache show smollm2-135m-instruct 12  # one of them, with its text\n"
        "gezel cache explain --messages request.json  # why was this prompt computed again?\n"
        "gezel cache warm smollm2-135m-instruct --system \"You are terse.\" --start  # before the first "
        "question\n"
        "gezel cache pin smollm2-135m-instruct 12  # keep it whatever comes\n"
        "gezel cache drop --session draft-7  # forget a conversation\n"
        "gezel cache flush --json  # write to disk what is not there yet",
    .positionals = kPositionals,
    .flags = kFlags,
    .run = run};

}  // namespace gezel::cli
