#include "grammar/tool_values.h"

#include <fmt/format.h>

#include <algorithm>

#include "grammar/char_set.h"
#include "grammar/lark_text.h"
#include "grammar/schema_parts.h"
#include "grammar/spaced_json.h"

namespace gezel::grammar {

namespace {

constexpr std::string_view kInteger = "/-?(0|[1-9][0-9]*)/";
constexpr std::string_view kNumber = "/-?(0|[1-9][0-9]*)(\\.[0-9]+)?([eE][+-]?[0-9]+)?/";
constexpr std::string_view kIdentifier = "/[A-Za-z_][A-Za-z0-9_.-]*/";

std::string joined(const std::vector<std::string>& alternatives) {
  return fmt::format("{}", fmt::join(alternatives, " | "));
}

}  // namespace

// ---- texts

DialectText::DialectText(const ToolDialect& dialect, const Vocabulary& vocabulary, bool lazy) {
  auto list = dialect.markers;
  while (!list.empty()) {
    const auto name = list.substr(0, list.find(','));
    list.remove_prefix(std::min(name.size() + 1, list.size()));
    const auto token = vocabulary.marker(name);
    if (!token) continue;
    const bool control = vocabulary.control(name).has_value();
    markers_.emplace(name, Marker{*token, control, lazy && !control && dialect.open.contains(name)});
  }
}

std::optional<DialectText::Place> DialectText::first_token(std::string_view text) const {
  std::optional<Place> first;
  for (const auto& [name, marker] : markers_) {
    if (!marker.control) continue;
    const auto at = text.find(name);
    if (at != std::string_view::npos && (!first || at < first->begin)) first = Place{at, name.size()};
  }
  return first;
}

std::string DialectText::sequence(std::string_view text) {
  std::string out;
  std::string plain;
  const auto add = [&out](std::string_view piece) {
    if (!out.empty() && !out.ends_with('(') && piece != ")?") out += ' ';
    out += piece;
  };
  const auto flush = [&] {
    if (!plain.empty()) add(lark_string(plain));
    plain.clear();
  };
  while (!text.empty()) {
    const auto marker =
        std::ranges::find_if(markers_, [&](const auto& known) { return text.starts_with(known.first); });
    const char c = text[0];
    if (marker != markers_.end()) {
      flush();
      const auto token = fmt::format("<[{}]>", marker->second.token);
      add(marker->second.spelled ? fmt::format("({} | {})", token, lark_string(marker->first)) : token);
      text.remove_prefix(marker->first.size());
      continue;
    }
    text.remove_prefix(1);
    if (c != '\v' && c != '\1' && c != '\2' && c != '\3') {
      plain += c;
      continue;
    }
    flush();
    if (c == '\v') add("WS?");
    if (c == '\2') add("(");
    if (c == '\3') add(")?");
    if (c == '\1') {
      add("ID");
      uses_id_ = true;
    }
  }
  flush();
  return out.empty() ? "\"\"" : out;
}

std::string DialectText::terminals() const {
  return fmt::format("WS: /[ \\t\\r\\n]{{1,32}}/\n{}", uses_id_ ? "ID: /[A-Za-z0-9_-]{1,64}/\n" : "");
}

std::vector<Token> DialectText::tokens() const {
  std::vector<Token> all;
  for (const auto& [name, marker] : markers_) {
    if (marker.control) all.push_back(marker.token);
  }
  return all;
}

// ---- values

// What is known of a value from its schema, references and unions followed some way.
struct ToolValues::Facts {
  bool string = false;
  bool integer = false;
  bool number = false;
  bool boolean = false;
  bool null = false;
  bool nested = false;                // objects or arrays
  std::optional<json::array> values;  // all that is allowed
  bool plain = false;                 // nothing but the type is said
};

ToolValues::Facts ToolValues::facts_of(const WalkedSchema& schema, const json::value& part, int depth) const {
  Facts all;
  const auto* object = part.if_object();
  if (object == nullptr || depth > 8) {
    all.string = all.integer = all.number = all.boolean = all.null = all.nested = part != json::value(false);
    return all;
  }
  if (const auto* value = object->if_contains("const")) all.values = json::array{*value};
  if (const auto* list = array_at(*object, "enum")) all.values = *list;
  if (const auto* definition = definition_of(schema.definitions, *object);
      definition != nullptr && object->size() <= 2) {
    return facts_of(schema, *definition, depth + 1);
  }
  const auto* type = object->if_contains("type");
  if (type == nullptr) {
    const auto* options = array_at(*object, "anyOf");
    if (options == nullptr) {
      all.string = all.integer = all.number = all.boolean = all.null = all.nested = true;
      return all;
    }
    bool all_listed = true;
    json::array listed;
    for (const auto& option : *options) {
      const auto one = facts_of(schema, option, depth + 1);
      all.string |= one.string;
      all.integer |= one.integer;
      all.number |= one.number;
      all.boolean |= one.boolean;
      all.null |= one.null;
      all.nested |= one.nested;
      all_listed = all_listed && one.values.has_value();
      if (one.values) listed.insert(listed.end(), one.values->begin(), one.values->end());
    }
    if (all_listed && !all.values) all.values = std::move(listed);
    return all;
  }
  const json::array types = type->is_array() ? type->get_array() : json::array{*type};
  for (const auto& entry : types) {
    const std::string_view name = entry.get_string();
    all.string |= name == "string";
    all.integer |= name == "integer" || name == "number";
    all.number |= name == "number";
    all.boolean |= name == "boolean";
    all.null |= name == "null";
    all.nested |= name == "object" || name == "array";
  }
  all.plain = object->size() == 2;  // "type" and "$at"
  return all;
}

std::string ToolValues::rule(std::string prefix, const std::string& body) {
  const auto found = known_.find(body);
  if (found != known_.end()) return found->second;
  const auto name = fmt::format("{}{}", prefix, known_.size());
  known_.emplace(body, name);
  rules_ += name + ": " + body + "\n";
  return name;
}

std::string ToolValues::json(const WalkedSchema& schema, const json::value& part) {
  const auto facts = facts_of(schema, part, 0);
  if (facts.plain && !facts.string && !facts.nested && !facts.null) {
    if (facts.boolean && !facts.integer) return rule("v", "\"true\" | \"false\"");
    if (!facts.boolean) return rule("v", std::string(facts.number ? kNumber : kInteger));
  }
  return rule("v", "%json " + schema_text(schema, part));
}

std::vector<ToolValues::Argument> ToolValues::arguments(const WalkedSchema& schema) {
  std::vector<Argument> all;
  const auto* root = schema.root.if_object();
  if (root == nullptr) return all;
  const auto* required = array_at(*root, "required");
  const auto is_required = [&](std::string_view key) {
    return required != nullptr && std::ranges::find(*required, json::value(key)) != required->end();
  };
  const auto* properties = object_at(*root, "properties");
  if (properties != nullptr) {
    for (const auto& [key, part] : *properties) {
      if (part != json::value(false)) all.push_back({argument(schema, key, part), is_required(key)});
    }
  }
  if (required != nullptr) {
    for (const auto& name : *required) {
      const std::string_view key = name.get_string();
      if (properties == nullptr || !properties->contains(key))
        all.push_back({argument(schema, key, json::value(true)), true});
    }
  }
  return all;
}

std::string ToolValues::any_arguments(const WalkedSchema& schema) {
  const auto* root = schema.root.if_object();
  if (root != nullptr && root->contains("additionalProperties") &&
      root->at("additionalProperties") == json::value(false)) {
    return "\"\"";
  }
  const auto value = [&](std::string_view key) { return argument(schema, key, json::value(true)); };
  const auto one = value("");
  return rule("n", fmt::format("({} ({} {})*)?", one, text_.sequence(dialect_.separator), one));
}

// An argument with its key; an empty key stands for any identifier.
std::string ToolValues::argument(const WalkedSchema& schema, std::string_view key, const json::value& part) {
  if (dialect_.style == ArgumentStyle::tags) return rule("t", tagged(schema, key, part));
  const auto value = dialect_.style == ArgumentStyle::gemma ? gemma(schema, part) : keyword(schema, part);
  if (key.empty()) {
    return rule("t", fmt::format("{} {} {} {}", text_.sequence(dialect_.before_key), kIdentifier,
                                 text_.sequence(dialect_.after_key), value));
  }
  const auto head = std::string(dialect_.before_key) + std::string(key) + std::string(dialect_.after_key);
  return rule("t", fmt::format("{} {}", text_.sequence(head), value));
}

// Text of any kind up to and including `end`.
std::string ToolValues::text_until(std::string_view end) {
  if (const auto token = text_.first_token(end)) {
    // Text cannot hold a control token, so it is the longest text that ends as it must before the first of
    // them.
    std::string before;
    for (auto rest = end.substr(0, token->begin); !rest.empty();) before += regex_char(take_scalar(rest));
    const auto text = before.empty() ? std::string("/(?s:.+)/?") : lark_regex("(?s:.*)" + before);
    return rule("u", text + " " + text_.sequence(end.substr(token->begin)));
  }
  const auto body = fmt::format("[suffix={}]: /(?s:.*)/", lark_string(end));
  const auto found = known_.find(body);
  if (found != known_.end()) return found->second;
  const auto name = fmt::format("u{}", known_.size());
  known_.emplace(body, name);
  rules_ += name + body + "\n";
  return name;
}

// The end of the value of an argument, with its key where the dialect repeats it.
std::string ToolValues::after_value(std::string_view key) const {
  std::string end(dialect_.after_value);
  if (const auto at = end.find('\4'); at != std::string::npos) end.replace(at, 1, key);
  return end;
}

std::string ToolValues::tagged(const WalkedSchema& schema, std::string_view key, const json::value& part) {
  const auto facts = facts_of(schema, part, 0);
  const auto end_text = after_value(key);
  const auto end = text_.sequence(end_text);
  const auto head = [&](std::string_view behind) {
    if (!key.empty())
      return text_.sequence(std::string(dialect_.before_key) + std::string(key) + std::string(behind));
    return fmt::format("{} {} {}", text_.sequence(dialect_.before_key), kIdentifier, text_.sequence(behind));
  };
  const bool two_heads = !dialect_.after_string_key.empty();
  const auto string_head = head(two_heads ? dialect_.after_string_key : dialect_.after_key);
  const auto other_head = head(dialect_.after_key);
  if (facts.values) {
    std::vector<std::string> texts;
    std::vector<std::string> others;
    for (const auto& value : *facts.values) {
      if (value.is_string())
        texts.push_back(value.get_string().empty() ? "\"\"" : lark_string(value.get_string()));
      else
        others.push_back(lark_string(spaced_json(value)));
    }
    std::vector<std::string> all;
    if (!texts.empty()) all.push_back(fmt::format("{} WS? ({}) WS? {}", string_head, joined(texts), end));
    if (!others.empty()) all.push_back(fmt::format("{} WS? ({}) WS? {}", other_head, joined(others), end));
    return joined(all);
  }
  std::vector<std::string> all;
  // Text takes everything that another type could be written as, unless the two are marked.
  if (facts.string) all.push_back(fmt::format("{} {}", string_head, text_until(end_text)));
  const bool others = facts.integer || facts.boolean || facts.null || facts.nested;
  if (others && (!facts.string || two_heads)) {
    all.push_back(fmt::format("{} WS? {} WS? {}", other_head, json(schema, part), end));
  }
  return joined(all);
}

std::string ToolValues::quoted(std::string_view text) {
  const auto quote = text_.sequence(dialect_.quote);
  return text.empty() ? fmt::format("{} {}", quote, quote)
                      : fmt::format("{} {} {}", quote, lark_string(text), quote);
}

std::string ToolValues::gemma_any() {
  if (!gemma_any_) {
    gemma_any_ = true;
    rules_ += fmt::format(
        "gemma: {} {} | {} | \"true\" | \"false\" | \"null\" | \"[\" (gemma (\",\" gemma)*)? \"]\" | \"{{\" "
        "(gemmam (\",\" gemmam)*)? \"}}\"\n"
        "gemmam: {} \":\" gemma\n",
        text_.sequence(dialect_.quote), text_until(dialect_.quote), kNumber, kIdentifier);
  }
  return "gemma";
}

std::string ToolValues::gemma(const WalkedSchema& schema, const json::value& part) {
  const auto facts = facts_of(schema, part, 0);
  std::vector<std::string> all;
  if (facts.values) {
    for (const auto& value : *facts.values) {
      if (value.is_string())
        all.push_back(quoted(value.get_string()));
      else if (!value.is_structured())
        all.push_back(lark_string(spaced_json(value)));
      else
        return gemma_any();
    }
    return rule("g", joined(all));
  }
  if (facts.nested) return gemma_any();
  if (facts.string)
    all.push_back(fmt::format("{} {}", text_.sequence(dialect_.quote), text_until(dialect_.quote)));
  if (facts.integer || facts.number) all.emplace_back(facts.number ? kNumber : kInteger);
  if (facts.boolean) all.emplace_back("\"true\" | \"false\"");
  if (facts.null) all.emplace_back("\"null\"");
  return all.empty() ? gemma_any() : rule("g", joined(all));
}

std::string ToolValues::keyword(const WalkedSchema& schema, const json::value& part) {
  const auto facts = facts_of(schema, part, 0);
  std::vector<std::string> all = {json(schema, part)};
  if (!facts.values && facts.boolean) all.emplace_back("\"True\" | \"False\"");
  if (!facts.values && facts.null) all.emplace_back("\"None\"");
  return rule("k", joined(all));
}

}  // namespace gezel::grammar
