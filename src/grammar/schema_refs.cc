#include "grammar/schema_parts.h"

namespace gezel::grammar {

namespace {

// Of a JSON pointer inside a URI fragment: percent-decoded, then "~1" and "~0".
std::string decode_token(std::string_view token) {
  std::string text;
  for (std::size_t i = 0; i < token.size(); ++i) {
    if (token[i] == '%' && i + 2 < token.size()) {
      const std::string digits(token.substr(i + 1, 2));
      char* end = nullptr;
      const long value = std::strtol(digits.c_str(), &end, 16);
      if (*end == '\0') {
        text += static_cast<char>(value);
        i += 2;
        continue;
      }
    }
    text += token[i];
  }
  std::string decoded;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool escape = text[i] == '~' && i + 1 < text.size() && (text[i + 1] == '0' || text[i + 1] == '1');
    decoded += escape ? (text[++i] == '0' ? '~' : '/') : text[i];
  }
  return decoded;
}

// Enough of RFC 3986 for identifiers inside one document.
std::string resolve_uri(std::string_view base, std::string_view reference) {
  const auto colon = reference.find(':');
  if (colon != std::string_view::npos && colon < reference.find('/')) return std::string(reference);
  if (reference.starts_with('/')) {
    const auto host = base.find("://");
    const auto path = host == std::string_view::npos ? 0 : base.find('/', host + 3);
    return std::string(base.substr(0, path)).append(reference);
  }
  const auto slash = base.rfind('/');
  return std::string(base.substr(0, slash == std::string_view::npos ? 0 : slash + 1)).append(reference);
}

const json::string* string_member(const json::value& value, std::string_view name) {
  const auto* object = value.if_object();
  const auto* member = object == nullptr ? nullptr : object->if_contains(name);
  return member == nullptr ? nullptr : member->if_string();
}

// The "$id" (draft 4: "id") that makes a schema a resource of its own, or nothing.
std::optional<std::string> resource_id(const json::value& value) {
  for (const auto* name : {"$id", "id"}) {
    const auto* id = string_member(value, name);
    if (id == nullptr || id->empty() || id->front() == '#') continue;
    // Draft 4 only, and data may have a member of that name.
    if (std::string_view(name) == "id" && std::string_view(*id).find("://") == std::string_view::npos)
      continue;
    return std::string(std::string_view(*id).substr(0, id->find('#')));
  }
  return std::nullopt;
}

}  // namespace

std::string pointer_to(std::string_view pointer, std::string_view token) {
  std::string longer(pointer);
  longer += '/';
  for (const char c : token) {
    if (c == '~')
      longer += "~0";
    else if (c == '/')
      longer += "~1";
    else
      longer += c;
  }
  return longer;
}

SchemaReferences::SchemaReferences(const json::value& root) : root_(root) {
  resources_[&root].uri = resource_id(root).value_or("");
  collect(root, {.resource = &root});
}

void SchemaReferences::collect(const json::value& value, const SchemaPlace& place) {
  if (const auto* array = value.if_array()) {
    for (std::size_t i = 0; i < array->size(); ++i) {
      collect((*array)[i], {pointer_to(place.pointer, std::to_string(i)), place.resource});
    }
    return;
  }
  const auto* object = value.if_object();
  if (object == nullptr) return;
  SchemaPlace here = place;
  if (&value != &root_) {
    if (const auto id = resource_id(value)) {
      auto uri = resolve_uri(resources_[place.resource].uri, *id);
      resources_[&value] = {std::move(uri), place.pointer, {}};
      here.resource = &value;
    }
  }
  for (const auto* name : {"$anchor", "$dynamicAnchor", "$id", "id"}) {
    const auto* anchor = string_member(value, name);
    if (anchor == nullptr || anchor->empty()) continue;
    const bool fragment = anchor->front() == '#';
    if ((name[0] == 'i' || name[1] == 'i') != fragment) continue;
    resources_[here.resource].anchors.emplace(std::string_view(*anchor).substr(fragment ? 1 : 0),
                                              Target{&value, here});
  }
  for (const auto& [key, member] : *object) collect(member, {pointer_to(here.pointer, key), here.resource});
}

std::optional<SchemaReferences::Target> SchemaReferences::walk(const json::value& resource,
                                                               std::string_view pointer) const {
  Target target{&resource, {.pointer = resources_.at(&resource).pointer, .resource = &resource}};
  while (!pointer.empty()) {
    pointer.remove_prefix(1);  // the slash
    const auto token = decode_token(pointer.substr(0, pointer.find('/')));
    pointer.remove_prefix(std::min(pointer.find('/'), pointer.size()));
    const json::value* next = nullptr;
    if (const auto* object = target.schema->if_object()) {
      next = object->if_contains(token);
    } else if (const auto* array = target.schema->if_array()) {
      if (token.empty() || token.size() > 9 || token.find_first_not_of("0123456789") != std::string::npos)
        return std::nullopt;
      next = array->if_contains(std::stoul(token));
    }
    if (next == nullptr) return std::nullopt;
    target.schema = next;
    target.place.pointer = pointer_to(target.place.pointer, token);
    if (resources_.contains(next)) target.place.resource = next;
  }
  return target;
}

std::optional<SchemaReferences::Target> SchemaReferences::resolve(std::string_view reference,
                                                                  const SchemaPlace& from) const {
  const auto hash = reference.find('#');
  const auto uri = reference.substr(0, hash);
  const auto fragment = hash == std::string_view::npos ? std::string_view{} : reference.substr(hash + 1);
  const json::value* resource = from.resource;
  if (!uri.empty()) {
    const auto wanted = resolve_uri(resources_.at(from.resource).uri, uri);
    resource = nullptr;
    for (const auto& [value, known] : resources_) {
      if (!known.uri.empty() && (known.uri == wanted || known.uri == uri)) resource = value;
    }
    if (resource == nullptr) return std::nullopt;
  }
  if (fragment.empty() || fragment[0] == '/') return walk(*resource, fragment);
  const auto& anchors = resources_.at(resource).anchors;
  const auto found = anchors.find(decode_token(fragment));
  if (found == anchors.end()) return std::nullopt;
  return found->second;
}

const json::value* definition_of(const json::object& definitions, const json::object& schema) {
  const auto* reference = schema.if_contains("$ref");
  if (reference == nullptr) return nullptr;
  return definitions.if_contains(
      std::string_view(reference->get_string()).substr(std::string_view("#/$defs/").size()));
}

std::string_view place_of(const json::value& schema) {
  const auto* object = schema.if_object();
  const auto* at = object == nullptr ? nullptr : object->if_contains("$at");
  return at == nullptr ? std::string_view{} : std::string_view(at->get_string());
}

}  // namespace gezel::grammar
