// The library says what it dislikes but not where. So when it refuses a whole schema, its parts are tried one
// by one: the smallest part that fails alone, while all parts inside it are fine, is the one to name.
//
// Compiling costs about a third of a second per megabyte, so all searches for one schema together have a
// budget. A schema that has too many parts for the library is refused as a whole: no part of it is at fault.
#include <fmt/format.h>

#include <set>

#include "grammar/schema_parts.h"
#include "grammar/schema_settle.h"

namespace gezel::grammar {

namespace {

constexpr std::size_t kMostTrialBytes = 4 * 1024 * 1024;  // compiled in search of parts
constexpr int kMostCompiledSchemas = 50'000;              // the library's own limit (JsonCompileOptions)
constexpr int kMostRemovals = 16;

bool unsatisfiable(std::string_view message) {
  return message.find("nsatisfiable") != std::string_view::npos;
}

// What the library says of a schema with more parts than it compiles; it counts them while it compiles.
bool too_large(std::string_view message) {
  return message.find("schema too large") != std::string_view::npos;
}

class Search {
 public:
  // `spent` counts the bytes compiled by all searches for one schema.
  Search(WalkedSchema& schema, const MatcherLimits& limits, std::size_t& spent)
      : schema_(schema), limits_(limits), spent_(spent) {}

  // Error of the library; nothing: it compiles, or the search has become too long to tell.
  std::optional<std::string> refused(const json::value& part) {
    const auto text = schema_text(schema_, part);
    if (exhausted() || (spent_ += text.size(), exhausted() && spent_ != text.size())) return std::nullopt;
    const auto checked = check_grammar(*Vocabulary::of_bytes(), Notation::json_schema, text, limits_);
    if (checked) return std::nullopt;
    return checked.error().message;
  }

  bool exhausted() const { return spent_ > kMostTrialBytes; }

  // The smallest refused part inside `part`, which is refused itself for `why`.
  json::value* smallest(json::value& part, std::string& why) {
    auto* object = part.if_object();
    if (object == nullptr) return &part;
    json::value* found = nullptr;
    const auto look = [&](json::value& child) {
      if (found != nullptr || child.is_bool() || !seen_.insert(&child).second) return;
      const auto problem = refused(child);
      // An option that nothing satisfies is no fault of the whole, unless that is the very complaint.
      if (!problem || (unsatisfiable(*problem) && !unsatisfiable(why))) return;
      why = *problem;
      found = smallest(child, why);
    };
    for_each_subschema(*object, look);
    if (const auto* definition = definition_of(schema_.definitions, *object))
      look(const_cast<json::value&>(*definition));
    return found == nullptr ? &part : found;
  }

 private:
  WalkedSchema& schema_;
  const MatcherLimits& limits_;
  std::size_t& spent_;
  std::set<const json::value*> seen_;
};

// "at 1(8): failed to compile JSON schema: ..." and notes on later lines are of no use to a client.
std::string reason(std::string message) {
  constexpr std::string_view kPrefix = "failed to compile JSON schema: ";
  if (const auto at = message.find(kPrefix); at != std::string::npos) message.erase(0, at + kPrefix.size());
  message = message.substr(0, message.find('\n'));
  if (too_large(message)) {
    return fmt::format(
        "it has more than {} schemas inside it when references and combinations are followed; "
        "make it smaller",
        kMostCompiledSchemas);
  }
  return message;
}

// What stays of a part that cannot be enforced: its type, so that arguments of a tool stay an object.
json::value only_type(const json::value& part, const std::string& pointer) {
  const auto* object = part.if_object();
  if (object == nullptr || !object->contains("type")) return true;
  return json::object{{"type", object->at("type")}, {"$at", pointer}};
}

}  // namespace

Result<> settle_schema(WalkedSchema& schema, SchemaMode mode, const MatcherLimits& limits) {
  std::size_t spent = 0;
  for (int removals = 0;; ++removals) {
    Search search(schema, limits, spent);
    if (search.exhausted()) {
      // Only here after a removal, and so only in lenient mode.
      schema.warnings.emplace_back("#: not enforced: too much of it cannot be enforced");
      schema.root = only_type(schema.root, "");
      return {};
    }
    auto why = search.refused(schema.root);
    if (!why) return {};
    auto* part = too_large(*why) ? &schema.root : search.smallest(schema.root, *why);
    const std::string pointer(place_of(*part));
    if (mode == SchemaMode::strict || removals == kMostRemovals) {
      return fail(ErrorKind::invalid, "constraint-unusable",
                  fmt::format("The schema at #{} cannot be enforced: {}.", pointer, reason(*why)), pointer);
    }
    schema.warnings.push_back(fmt::format("#{}: not enforced: {}", pointer, reason(*why)));
    json::value simple = only_type(*part, pointer);
    if (simple == *part || search.refused(simple)) simple = true;
    *part = std::move(simple);
  }
}

}  // namespace gezel::grammar
