// Bodies of the Responses API come from anyone: whatever the bytes, parsing gives a request or an error that
// names something, and an error can always be put on the wire.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "api/responses.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  const auto request = gezel::api::parse_responses_request(body);
  if (request) {
    const auto& generate = request->chat.generate;
    if (generate.messages.empty()) std::abort();
    for (const auto& tool : generate.tools) {
      if (!gezel::parse_json(tool.json) || !request->tools.contains(tool.name)) std::abort();
    }
    return 0;
  }
  const auto& error = request.error();
  if (error.status != 400 || error.code.empty() || error.message.empty()) std::abort();
  if (!gezel::parse_json(gezel::api::error_body(error, "r"))) std::abort();
  return 0;
}
