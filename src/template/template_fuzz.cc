// A template out of a downloaded file and a context out of a request: whatever they hold, rendering ends with
// text or an error. Input: template source, a zero byte, context text; without a zero byte a fixed context is
// used.
#include <cstdint>
#include <string_view>

#include "base/clock.h"
#include "template/chat_template.h"
#include "template/renderer.h"

namespace {

// Small, so that the fuzzer sees many inputs a second.
constexpr gezel_template_limits kLimits = {
    .source_bytes = 4096, .context_bytes = 16384, .output_bytes = 65536, .fuel = 20000, .fuel_per_kib = 0};

constexpr std::string_view kContext =
    R"({"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"a <think> \u00e9\n"},)"
    R"({"role":"assistant","content":"","tool_calls":[{"id":"c1","type":"function","function":{"name":"f",)"
    R"("arguments":{"x":[1,2.5,null,true]}}}]},{"role":"tool","tool_call_id":"c1","content":"ok"}],)"
    R"("tools":[{"type":"function","function":{"name":"f","parameters":{}}}],"add_generation_prompt":true,)"
    R"("bos_token":"<s>","eos_token":"</s>","n":42,"x":1e300,"s":"text"})";

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t cut = input.find('\0');
  const std::string_view source = input.substr(0, cut);
  const std::string_view context = cut == std::string_view::npos ? kContext : input.substr(cut + 1);
  const auto renderer = gezel::chat::Renderer::compile(source, kLimits);
  if (!renderer) {
    if (renderer.error().kind == GEZEL_TEMPLATE_PANIC) __builtin_trap();
    return 0;
  }
  const auto text = renderer->render(context, 1'700'000'000);
  if (text ? text->size() > kLimits.output_bytes : text.error().kind == GEZEL_TEMPLATE_PANIC)
    __builtin_trap();
  return 0;
}
