// models/default_template.h
//
// Which default chat template the engine will use for a file that brings none, told before the model is first
// loaded. The engine decides by the control tokens of the vocabulary; here the vocabulary is not parsed, its
// texts are looked for in the header. Once a model was loaded, the engine's own word counts.
#pragma once
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/files.h"

namespace gezel::models {

// "default:gemma", ..., "default:plain" when no known control token is there. `header` is the file up to its
// tensor data.
std::string default_template_of(std::string_view header);

// The same for a file; "" when it cannot be read.
std::string default_template_of(const fs::path& path, Bytes header_bytes);

}  // namespace gezel::models
