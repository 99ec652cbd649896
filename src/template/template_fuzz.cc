// A template out of a downloaded file and a context out of a request: whatever they hold, rendering ends with
// text or an error. Input: template source, a zero byte, context text; without a zero byte a fixed context is
// used.
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>

#include "template/renderer.h"

namespace {

// Small, so that the fuzzer sees many inputs a second.
constexpr gezel_template_limits kLimits = {
    .source_bytes = 4096, .context_bytes = 16384, .output_bytes = 65536, .fuel = 20000, .fuel_per_kib = 0,
    .memory_bytes = 1ULL << 40, .memory_per_kib = 0};

constexpr std::string_view kContext =
    R"({"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"a <think> \u00e9\n"},)"
    R"({"role":"assistant","content":"","tool_calls":[{"id":"c1","type":"function","function":{"name":"f",)"
    R"("arguments":{"x":[1,2.5,null,true]}}}]},{"role":"tool","tool_call_id":"c1","content":"ok"}],)"
    R"("tools":[{"type":"function","function":{"name":"f","parameters":{}}}],"add_generation_prompt":true,)"
    R"("bos_token":"<s>","eos_token":"</s>","n":42,"x":1e300,"s":"text"})";

constexpr std::string_view kPieces[] = {"{{ ",
                                        " }}",
                                        "{%- ",
                                        " -%}",
                                        "{% for x in ",
                                        "{% endfor %}",
                                        "{% if ",
                                        "{% else %}",
                                        "{% elif ",
                                        "{% endif %}",
                                        " %}",
                                        "{% set x = ",
                                        "{% set ns = namespace(x=",
                                        "{% set ns.x = ",
                                        "{% macro m(a, b=1) %}",
                                        "{% endmacro %}",
                                        "m(",
                                        "{% set x %}",
                                        "{% endset %}",
                                        "{% set _ = ns.x.append(",
                                        "{% set y = ns.x.pop(0) %}",
                                        "{% generation %}",
                                        "{% endgeneration %}",
                                        "{% raw %}",
                                        "{% endraw %}",
                                        "{# ",
                                        " #}",
                                        "{% break %}",
                                        "{% continue %}",
                                        "{% call m() %}",
                                        "{% endcall %}",
                                        "{% filter trim %}",
                                        "{% endfilter %}",
                                        "messages",
                                        "tools",
                                        "n",
                                        "x",
                                        "ns",
                                        "s",
                                        "loop",
                                        "none",
                                        "true",
                                        "[",
                                        "]",
                                        "(",
                                        ")",
                                        "{",
                                        "}",
                                        ", ",
                                        ": ",
                                        ".",
                                        " + ",
                                        " - ",
                                        " * ",
                                        " / ",
                                        " // ",
                                        " % ",
                                        " ** ",
                                        " ~ ",
                                        " == ",
                                        " < ",
                                        " in ",
                                        " not in ",
                                        " is ",
                                        " is not ",
                                        " and ",
                                        " or ",
                                        "not ",
                                        " if ",
                                        " else ",
                                        " | ",
                                        "tojson",
                                        "tojson(indent=2)",
                                        "string",
                                        "join(', ')",
                                        "indent(3)",
                                        "trim",
                                        "default('d')",
                                        "int",
                                        "float",
                                        "length",
                                        "list",
                                        "first",
                                        "last",
                                        "sort",
                                        "unique",
                                        "dictsort",
                                        "items",
                                        "map(attribute='role')",
                                        "selectattr('role', 'eq', 'user')",
                                        "reject",
                                        "round",
                                        "format(1)",
                                        "replace('a', 'bb')",
                                        "safe",
                                        "upper",
                                        "title",
                                        "reverse",
                                        "batch(2)",
                                        "slice(2)",
                                        "groupby('role')",
                                        "sum",
                                        "min",
                                        "string",
                                        "mapping",
                                        "sequence",
                                        "iterable",
                                        "defined",
                                        "number",
                                        ".strip()",
                                        ".split('a', 1)",
                                        ".rsplit()",
                                        ".splitlines()",
                                        ".items()",
                                        ".get('content', 1)",
                                        ".keys()",
                                        ".format(x, 2)",
                                        ".join(x)",
                                        ".center(9, '*')",
                                        ".title()",
                                        ".content",
                                        ".role",
                                        "['content']",
                                        "[0]",
                                        "[-1]",
                                        "[1:]",
                                        "[::-1]",
                                        "range(5)",
                                        "range(0, 9, 2)",
                                        "dict(a=1)",
                                        "namespace()",
                                        "cycler(1, 2)",
                                        "joiner()",
                                        "raise_exception(",
                                        "strftime_now('%c %V')",
                                        "0",
                                        "1",
                                        "-1",
                                        "7",
                                        "2.5",
                                        "1e300",
                                        "'a'",
                                        "'{:>9}'",
                                        "'%s'",
                                        "\"it's\"",
                                        "'\u00e9\\n'",
                                        "\n",
                                        "  ",
                                        "text",
                                        "<think>"};

std::string from_pieces(std::string_view bytes) {
  std::string source;
  for (const char c : bytes) source += kPieces[static_cast<unsigned char>(c) % std::size(kPieces)];
  return source;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view input(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::string pieces = data[0] % 2 == 1 ? from_pieces(input) : std::string();
  const std::size_t cut = pieces.empty() ? input.find('\0') : std::string_view::npos;
  const std::string_view source = pieces.empty() ? input.substr(0, cut) : std::string_view(pieces);
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
