#include "cli/model_lists.h"

#include <fmt/format.h>

#include <ostream>

#include "cli/console.h"
#include "cli/daemon_client.h"
#include "cli/model_names.h"
#include "cli/printer.h"
#include "cli/table.h"

namespace gezel::cli {
namespace {

// The objects of an array member that pass.
template <class Pass>
json::array objects_of(const json::value& reply, std::string_view member, Pass pass) {
  json::array out;
  const json::array* all = reply.is_object() ? array_at(reply.get_object(), member) : nullptr;
  if (all == nullptr) return out;
  for (const json::value& value : *all) {
    if (value.is_object() && pass(value.get_object())) out.push_back(value);
  }
  return out;
}

std::string size_cell(const json::object& row, std::string_view key) {
  const std::int64_t bytes = int_or(row, key, 0);
  return bytes > 0 ? format_bytes(static_cast<Bytes>(bytes)) : "-";
}

std::string count_cell(const json::object& row, std::string_view key) {
  const std::int64_t count = int_or(row, key, 0);
  return count > 0 ? group_digits(count) : "-";
}

std::string member_text(const json::object& row, std::string_view object, std::string_view key) {
  const json::object* inner = object_at(row, object);
  return inner == nullptr ? std::string() : string_or(*inner, key);
}

bool member_flag(const json::object& row, std::string_view object, std::string_view key) {
  const json::object* inner = object_at(row, object);
  return inner != nullptr && bool_or(*inner, key, false);
}

// The short name, and plainly what may not be done.
std::string license_cell(const json::object& row) {
  std::string out = member_text(row, "license", "shortName");
  if (out.empty()) out = "unknown";
  const std::string license = member_text(row, "license", "class");
  if (license == "commercial-restricted") out += " (NON-COMMERCIAL)";
  if (license == "custom-restricted") out += " (own terms)";
  return out;
}

}  // namespace

int print_available(Environment& env, bool json) {
  const Interrupt interrupt;
  const auto client = DaemonClient::connect_or_start(env);
  if (!client) return print_error(env, client.error());
  const auto reply = client->get("/v1/models");
  if (!reply) return print_error(env, reply.error());
  const json::array rows = objects_of(*reply, "data", [](const json::object& entry) {
    return string_or(entry, "availability") == "downloadable";
  });
  if (json) {
    *env.out << to_json(json::object{{"models", rows}}) << '\n' << std::flush;
    return kOk;
  }
  if (rows.empty()) {
    print_note(env, "everything in the catalog is installed, or the catalog has nothing for this machine");
    return kOk;
  }
  std::vector<std::vector<std::string>> cells;
  for (const json::value& value : rows) {
    const json::object& row = value.get_object();
    const std::string label = member_text(row, "fit", "label");
    cells.push_back({short_name(string_or(row, "id")), size_cell(row, "download_bytes"),
                     count_cell(row, "context_window"),
                     member_flag(row, "capabilities", "tools") ? "yes" : "-", label.empty() ? "-" : label,
                     member_flag(row, "recommendation", "recommended") ? "recommended" : "",
                     license_cell(row), string_or(row, "name")});
  }
  *env.out << render_table({{"MODEL"},
                            {"DOWNLOAD", Align::right},
                            {"CONTEXT", Align::right},
                            {"TOOLS"},
                            {"ON THIS MACHINE"},
                            {""},
                            {"LICENSE"},
                            {"NAME"}},
                           cells)
           << std::flush;
  return kOk;
}

int print_discovered(Environment& env, bool json) {
  const Interrupt interrupt;
  const auto client = DaemonClient::connect_or_start(env);
  if (!client) return print_error(env, client.error());
  const auto reply = client->get("/api/models/discovered");
  if (!reply) return print_error(env, reply.error());
  const json::array rows = objects_of(*reply, "models", [](const json::object&) { return true; });
  if (json) {
    *env.out << to_json(json::object{{"models", rows}}) << '\n' << std::flush;
    return kOk;
  }
  if (rows.empty()) {
    print_note(env, "no other program on this machine has models that can be used here");
    return kOk;
  }
  std::vector<std::vector<std::string>> cells;
  for (const json::value& value : rows) {
    const json::object& row = value.get_object();
    const std::string installed = string_or(row, "installedAs");
    const bool importable = bool_or(row, "importable", false);
    cells.push_back({string_or(row, "id"), size_cell(row, "sizeBytes"), string_or(row, "quantization", "-"),
                     count_cell(row, "contextWindow"),
                     !importable         ? "no: " + string_or(row, "reason")
                     : installed.empty() ? "yes"
                                         : "is " + installed});
  }
  *env.out << render_table(
                  {{"MODEL"}, {"SIZE", Align::right}, {"QUANT"}, {"CONTEXT", Align::right}, {"USABLE"}},
                  cells)
           << std::flush;
  return kOk;
}

}  // namespace gezel::cli
