// system/vm_stat.h
//
// Free memory as macOS's vm_stat prints it, for reports from another machine; on the machine itself the
// kernel is asked directly (spec 20 sections 1.3, 1.4).
#pragma once
#include <optional>
#include <string_view>

#include "base/bytes.h"

namespace gezel::system {

// Free, inactive, speculative, purgeable and file-backed pages together; a label that is missing counts 0.
// Nothing without a page size or when all are 0.
std::optional<Bytes> parse_vm_stat(std::string_view text);

}  // namespace gezel::system
