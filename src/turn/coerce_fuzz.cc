// The input is two lines: a tool's parameters and a call's arguments. Coercing twice must be coercing once,
// and no key may be lost.
#include <cstdlib>

#include "turn/calls.h"
#include "turn/coerce.h"
#include "turn/tolerant_json.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t line = std::min(input.find('\n'), input.size());
  auto parameters = gezel::turn::read_arguments(input.substr(0, line));
  auto arguments = gezel::turn::read_arguments(input.substr(std::min(line + 1, input.size())));
  if (!parameters.value.is_object() || !arguments.value.is_object()) return 0;

  const auto tool = gezel::turn::make_tool_schema("t", std::move(parameters.value.get_object()));
  auto& object = arguments.value.get_object();
  const std::size_t keys = object.size();
  gezel::turn::coerce_arguments(object, tool);
  const std::string once = gezel::turn::compact_json(object);
  if (object.size() != keys || !gezel::turn::coerce_arguments(object, tool).empty()) std::abort();
  if (gezel::turn::compact_json(object) != once) std::abort();
  gezel::turn::markup_value(input, gezel::turn::MarkupValue::trimmed_line, tool.position("a"));
  return 0;
}
