// The library says what it dislikes but not where. So when it refuses a whole schema, its parts are tried one
// by one: the smallest part that fails alone, while all parts inside it are fine, is the one to name.
#include <fmt/format.h>

#include <set>

#include "grammar/schema_parts.h"
#include "grammar/schema_settle.h"

namespace gezel::grammar {

namespace {

constexpr std::size_t kMostTrialBytes = 8 * 1024 * 1024;  // compiled in search of the part
constexpr int kMostRemovals = 16;

bool unsatisfiable(std::string_view message) {
  return message.find("nsatisfiable") != std::string_view::npos;
}

class Search {
 public:
  Search(WalkedSchema& schema, const MatcherLimits& limits) : schema_(schema), limits_(limits) {}

  // Error of the library; nothing: it compiles, or the search has become too long to tell.
  std::optional<std::string> refused(const json::value& part) {
    const auto text = schema_text(schema_, part);
    if (spent_ += text.size(); spent_ > kMostTrialBytes && spent_ != text.size()) return std::nullopt;
    const auto checked = check_grammar(*Vocabulary::of_bytes(), Notation::json_schema, text, limits_);
    if (checked) return std::nullopt;
    return checked.error().message;
  }

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
  std::size_t spent_ = 0;
  std::set<const json::value*> seen_;
};

// "at 1(8): failed to compile JSON schema: ..." and notes on later lines are of no use to a client.
std::string reason(std::string message) {
  constexpr std::string_view kPrefix = "failed to compile JSON schema: ";
  if (const auto at = message.find(kPrefix); at != std::string::npos) message.erase(0, at + kPrefix.size());
  return message.substr(0, message.find('\n'));
}

}  // namespace

Result<> settle_schema(WalkedSchema& schema, SchemaMode mode, const MatcherLimits& limits) {
  for (int removals = 0;; ++removals) {
    Search search(schema, limits);
    auto why = search.refused(schema.root);
    if (!why) return {};
    auto* part = search.smallest(schema.root, *why);
    const std::string pointer(place_of(*part));
    if (mode == SchemaMode::strict || removals == kMostRemovals) {
      return fail(ErrorKind::invalid, "constraint-unusable",
                  fmt::format("The schema at #{} cannot be enforced: {}.", pointer, reason(*why)), pointer);
    }
    schema.warnings.push_back(fmt::format("#{}: not enforced: {}", pointer, reason(*why)));
    // Its type is kept if that alone is fine: arguments of a tool stay an object.
    json::value simple = true;
    if (const auto* object = part->if_object(); object != nullptr && object->contains("type")) {
      simple = json::object{{"type", object->at("type")}, {"$at", pointer}};
    }
    if (simple == *part || search.refused(simple)) simple = true;
    *part = std::move(simple);
  }
}

}  // namespace gezel::grammar
