// worker/tool_block.h
//
// Tools for models whose template does not show any: a block of system text that lists them and says how to
// call one, in the Hermes form. docs/tools.md shows it.
#pragma once
#include "prompt/request.h"

namespace gezel::worker {

// The dialect that the block teaches.
inline constexpr const char* kBlockDialect = "hermes";

// Adds the block to the system text; the tools themselves are no longer offered to the template. Only the
// callable one with a named tool choice.
void describe_tools_in_system_text(prompt::GenerateRequest& request);

}  // namespace gezel::worker
