// catalog/parse_parts.h
//
// The parts of an item, each from its fields. Internal to the module.
#pragma once
#include "catalog/fields.h"

namespace gezel::catalog {

ChatFacts read_chat_facts(const Fields& fields);
ImageFacts read_image_facts(const Fields& fields, std::string_view id);
LoraFacts read_lora_facts(const Fields& fields);
Version read_version(const Fields& fields, Kind kind);

}  // namespace gezel::catalog
