#include "turn/tool_schema.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

namespace gezel::turn {
namespace {

// Schemas that one position may consist of. What lies beyond is not looked at and makes the position allow
// everything.
constexpr std::size_t kMaxSchemas = 256;

Types type_named(std::string_view name) {
  if (name == "null") return kNullType;
  if (name == "boolean") return kBooleanType;
  if (name == "integer") return kIntegerType;
  if (name == "number") return kNumberType | kIntegerType;
  if (name == "string") return kStringType;
  if (name == "array") return kArrayType;
  if (name == "object") return kObjectType;
  return 0;
}

// What `type`, `enum` and `const` of this schema say; 0 when they say nothing.
Types own_types(const json::object& schema) {
  Types types = 0;
  if (const auto* type = schema.if_contains("type")) {
    if (const auto* name = type->if_string()) types |= type_named(*name);
    if (const auto* names = type->if_array()) {
      for (const auto& name : *names) {
        if (name.is_string()) types |= type_named(name.get_string());
      }
    }
  }
  if (const auto* values = array_at(schema, "enum")) {
    for (const auto& value : *values) types |= types_of(value);
  }
  if (const auto* value = schema.if_contains("const")) types |= types_of(*value);
  return types;
}

// The schema that `#/...` (RFC 6901) leads to; null when there is none.
const json::object* resolve_reference(const json::object& root, std::string_view reference) {
  if (!reference.starts_with('#')) return nullptr;
  reference.remove_prefix(1);
  const json::object* object = &root;
  const json::array* array = nullptr;
  while (!reference.empty()) {
    if (!reference.starts_with('/')) return nullptr;
    reference.remove_prefix(1);
    const std::string_view part = reference.substr(0, reference.find('/'));
    reference.remove_prefix(part.size());
    std::string key;
    for (std::size_t i = 0; i < part.size(); ++i) {
      const bool escaped = part[i] == '~' && i + 1 < part.size();
      key += escaped ? (part[++i] == '1' ? '/' : '~') : part[i];
    }
    const json::value* next = nullptr;
    if (array != nullptr) {
      std::size_t index = array->size();
      std::from_chars(key.data(), key.data() + key.size(), index);
      next = array->if_contains(index);
    } else {
      next = object->if_contains(key);
    }
    if (next == nullptr) return nullptr;
    object = next->if_object();
    array = next->if_array();
    if (object == nullptr && array == nullptr) return nullptr;
  }
  return object;
}

// Collects the schemas of one position and the union of their types.
class Collector {
 public:
  explicit Collector(const json::object& root) { position_.root = &root; }

  // One of several schemas that may hold here.
  void add(const json::value& schema) {
    said_something_ = true;
    const auto* object = schema.if_object();
    merge(object == nullptr ? std::optional<Types>(0) : visit(*object, 0));
  }
  void add(const json::object& schema) {
    said_something_ = true;
    merge(visit(schema, 0));
  }

  SchemaPosition take() {
    position_.types = said_something_ && !anything_ && types_ != 0 ? types_ : kAnyType;
    return std::move(position_);
  }

 private:
  void merge(std::optional<Types> types) {
    if (!types) return;
    types_ |= *types;
    anything_ |= *types == 0;
  }

  // The types of a schema, 0 when it declares none; nothing when it was visited before (a cycle, or a second
  // way to the same place) and has nothing to add.
  std::optional<Types> visit(const json::object& schema, int depth) {
    if (std::ranges::find(position_.schemas, &schema) != position_.schemas.end()) return std::nullopt;
    if (depth > kMaxSchemaDepth || position_.schemas.size() >= kMaxSchemas) {
      anything_ = true;
      return std::nullopt;
    }
    position_.schemas.push_back(&schema);
    Types types = own_types(schema);
    const bool own = types != 0;
    if (const auto* reference = schema.if_contains("$ref"); reference != nullptr && reference->is_string()) {
      if (const auto* target = resolve_reference(*position_.root, reference->get_string())) {
        types |= visit(*target, depth + 1).value_or(Types{0});
      }
    }
    // A branch that declares nothing adds to what `allOf` declares, but opens `anyOf` to everything, unless
    // the schema around it has types of its own.
    bool open = false;
    for (const std::string_view key : {"allOf", "anyOf", "oneOf"}) {
      const auto* branches = array_at(schema, key);
      if (branches == nullptr) continue;
      for (const auto& branch : *branches) {
        const auto* object = branch.if_object();
        const auto found = object == nullptr ? std::optional<Types>(0) : visit(*object, depth + 1);
        if (!found) continue;
        types |= *found;
        open |= *found == 0 && key != "allOf";
      }
    }
    return open && !own ? Types{0} : types;
  }

  SchemaPosition position_;
  Types types_ = 0;
  bool anything_ = false;
  bool said_something_ = false;
};

}  // namespace

Types types_of(const json::value& value) {
  switch (value.kind()) {
    case json::kind::null:
      return kNullType;
    case json::kind::bool_:
      return kBooleanType;
    case json::kind::int64:
    case json::kind::uint64:
      return kIntegerType | kNumberType;
    case json::kind::double_: {
      const double number = value.get_double();
      return number == std::floor(number) ? kIntegerType | kNumberType : kNumberType;
    }
    case json::kind::string:
      return kStringType;
    case json::kind::array:
      return kArrayType;
    case json::kind::object:
      return kObjectType;
  }
  return 0;
}

SchemaPosition position_of(const json::object& root, const json::object& schema) {
  Collector collector(root);
  collector.add(schema);
  return collector.take();
}

SchemaPosition member_position(const SchemaPosition& object, std::string_view key) {
  if (object.root == nullptr) return {};
  Collector collector(*object.root);
  for (const json::object* schema : object.schemas) {
    const auto* properties = object_at(*schema, "properties");
    const auto* declared = properties == nullptr ? nullptr : properties->if_contains(key);
    if (declared == nullptr)
      declared = object_at(*schema, "additionalProperties") == nullptr
                     ? nullptr
                     : schema->if_contains("additionalProperties");
    if (declared != nullptr) collector.add(*declared);
  }
  return collector.take();
}

SchemaPosition element_position(const SchemaPosition& array, std::size_t index) {
  if (array.root == nullptr) return {};
  Collector collector(*array.root);
  for (const json::object* schema : array.schemas) {
    const json::array* prefix = array_at(*schema, "prefixItems");
    if (prefix == nullptr) prefix = array_at(*schema, "items");
    if (prefix != nullptr && index < prefix->size()) {
      collector.add((*prefix)[index]);
    } else if (const auto* items = object_at(*schema, "items")) {
      collector.add(*items);
    }
  }
  return collector.take();
}

const Property* ToolSchema::property(std::string_view key) const {
  const auto index = keys.exact(key);
  return index ? &properties[*index] : nullptr;
}

Types ToolSchema::types(std::string_view key) const {
  const Property* declared = property(key);
  return declared == nullptr ? kAnyType : declared->types;
}

SchemaPosition ToolSchema::position(std::string_view key) const {
  return member_position(position_of(parameters, parameters), key);
}

ToolSchema make_tool_schema(std::string name, json::object parameters) {
  ToolSchema tool;
  tool.name = std::move(name);
  tool.parameters = std::move(parameters);
  if (const auto* required = array_at(tool.parameters, "required")) {
    for (const auto& key : *required) {
      if (key.is_string()) tool.required.emplace_back(key.get_string());
    }
  }
  const SchemaPosition position = position_of(tool.parameters, tool.parameters);
  std::vector<std::string> names;
  for (const json::object* schema : position.schemas) {
    const auto* properties = object_at(*schema, "properties");
    if (properties == nullptr) continue;
    for (const auto& [key, unused] : *properties) names.emplace_back(key);
  }
  // The same key of two branches is one property.
  std::vector<std::string> distinct;
  const NameIndex first(names);
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (first.exact(names[i]) == i) distinct.push_back(names[i]);
  }
  tool.keys = NameIndex(distinct);
  for (std::string& key : distinct) {
    Property property;
    property.types = member_position(position, key).types;
    property.required = std::ranges::find(tool.required, key) != tool.required.end();
    property.name = std::move(key);
    tool.properties.push_back(std::move(property));
  }
  return tool;
}

Result<ToolSchema> read_tool_schema(std::string_view tool_json) {
  GEZEL_TRY(const json::value parsed, parse_json(tool_json));
  const auto* object = parsed.if_object();
  if (object != nullptr) {
    if (const auto* function = object_at(*object, "function")) object = function;
  }
  const auto* name = object == nullptr ? nullptr : object->if_contains("name");
  if (name == nullptr || !name->is_string() || name->get_string().empty()) {
    return fail(ErrorKind::invalid, "invalid_tool_schema",
                "the tool has no name: set `function.name` to 1 to 64 letters, digits, `_`, `.` or `-`",
                "function.name");
  }
  const auto* parameters = object_at(*object, "parameters");
  return make_tool_schema(std::string(name->get_string()),
                          parameters == nullptr ? json::object() : *parameters);
}

}  // namespace gezel::turn
