#include "models/header.h"

#include <fmt/format.h>

#include <utility>

#include "gguf/metadata.h"
#include "models/default_template.h"

namespace gezel::models {

Result<HeaderFacts> read_header(const fs::path& path) {
  auto metadata = gguf::read_metadata(path);
  if (!metadata) {
    Error error = std::move(metadata).error();
    if (error.kind == ErrorKind::corrupt) {
      error.kind = ErrorKind::invalid;  // the caller chose the file
    } else {
      error = Error{ErrorKind::invalid,
                    "unreadable",
                    fmt::format("{} cannot be read: {}", path.string(), error.message),
                    {}};
    }
    error.param = "path";
    return std::unexpected(std::move(error));
  }
  HeaderFacts facts;
  facts.architecture = metadata->architecture;
  facts.name = metadata->name;
  facts.quantization = metadata->quantization;
  facts.context_window = static_cast<std::int64_t>(metadata->geometry.context_length.value_or(0));
  facts.chat_template_present = metadata->chat_template.has_value();
  if (!facts.chat_template_present)
    facts.default_template = default_template_of(path, metadata->header_bytes);
  facts.is_projector = metadata->architecture == "clip";
  const std::string* type = metadata->values.string_at("general.type");
  facts.is_imatrix = type != nullptr && *type == "imatrix";
  return facts;
}

}  // namespace gezel::models
