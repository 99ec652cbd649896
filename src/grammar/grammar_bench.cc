// What constraints cost: reading and compiling many tools and large schemas, a mask, forced tokens, a GBNF
// grammar. Against the byte vocabulary; masks of a model's vocabulary are measured where a model is linked
// (worker_bench).
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include "grammar/compile_cache.h"
#include "grammar/gbnf.h"
#include "grammar/tool_grammar.h"
#include "grammar/validator.h"

namespace gezel::grammar {
namespace {

// A tool with as many parameters of all kinds as make about `bytes` of JSON.
json::object tool(int number, std::size_t bytes) {
  json::object properties;
  json::array required;
  std::size_t size = 100;
  for (int i = 0; size < bytes; ++i) {
    json::object property;
    switch (i % 6) {
      case 0:
        property = {{"type", "string"}};
        break;
      case 1:
        property = {{"type", "integer"}, {"minimum", i}, {"maximum", 100 + i}};
        break;
      case 2:
        property = {{"type", "string"}, {"enum", json::array{fmt::format("first_{}", i), "second", "third"}}};
        break;
      case 3:
        property = {{"type", "array"}, {"items", {{"type", "string"}}}, {"maxItems", 10}};
        break;
      case 4:
        property = {{"type", "object"},
                    {"properties", {{"lat", {{"type", "number"}}}, {"lon", {{"type", "number"}}}}},
                    {"required", json::array{"lat", "lon"}},
                    {"additionalProperties", false}};
        break;
      default:
        property = {{"anyOf", json::array{json::object{{"type", "string"}, {"pattern", "^[a-z]+$"}},
                                          json::object{{"type", "null"}}}}};
    }
    property["description"] =
        fmt::format("What parameter {} of tool {} is for, in a sentence of usual length.", i, number);
    const auto name = fmt::format("parameter_{}", i);
    if (i % 3 == 0) required.emplace_back(name);
    size += json::serialize(property).size() + name.size() + 4;
    properties[name] = std::move(property);
  }
  return {{"name", fmt::format("tool_{}", number)},
          {"parameters",
           {{"type", "object"}, {"properties", std::move(properties)}, {"required", std::move(required)}}}};
}

json::array tools(int count, std::size_t bytes) {
  json::array all;
  for (int i = 0; i < count; ++i) all.push_back(tool(i, bytes / static_cast<std::size_t>(count)));
  return all;
}

ToolSet walked(const json::array& list, std::string_view dialect) {
  ToolSet set;
  std::vector<std::string> warnings;
  set.tools = std::move(*walk_tools(list, warnings));
  set.dialect = dialect;
  return set;
}

constexpr int kTools = 500;
constexpr std::size_t kToolBytes = 1024 * 1024;

void walk_500_tools_of_1_mb(benchmark::State& state) {
  const auto list = tools(kTools, kToolBytes);
  for (auto _ : state) {
    std::vector<std::string> warnings;
    benchmark::DoNotOptimize(walk_tools(list, warnings));
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * json::serialize(list).size()));
}
BENCHMARK(walk_500_tools_of_1_mb)->Unit(benchmark::kMillisecond);

void compile_500_tools_of_1_mb(benchmark::State& state, std::string_view dialect) {
  const auto set = walked(tools(kTools, kToolBytes), dialect);
  const ConstraintSpec spec{ConstraintKind::tools, tool_set_text(set), false};
  for (auto _ : state) {
    auto matcher = compile(spec, Vocabulary::of_bytes());
    if (!matcher) state.SkipWithError(matcher.error().message.c_str());
  }
}
BENCHMARK_CAPTURE(compile_500_tools_of_1_mb, hermes, "hermes")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(compile_500_tools_of_1_mb, qwen_xml, "qwen-xml")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(compile_500_tools_of_1_mb, gemma, "gemma")->Unit(benchmark::kMillisecond);

void clone_500_tools(benchmark::State& state) {
  const auto set = walked(tools(kTools, kToolBytes), "hermes");
  const auto matcher = compile({ConstraintKind::tools, tool_set_text(set), false}, Vocabulary::of_bytes());
  for (auto _ : state) benchmark::DoNotOptimize(matcher->clone());
}
BENCHMARK(clone_500_tools)->Unit(benchmark::kMillisecond);

void prepare_schema_of_10_kb(benchmark::State& state) {
  const auto text = json::serialize(tool(0, 10 * 1024).at("parameters"));
  for (auto _ : state) {
    auto prepared = prepare({ConstraintKind::json_schema, text, false});
    if (!prepared) state.SkipWithError(prepared.error().message.c_str());
  }
}
BENCHMARK(prepare_schema_of_10_kb)->Unit(benchmark::kMillisecond);

void mask_of_bytes(benchmark::State& state) {
  const auto prepared = prepare({ConstraintKind::json_object, "", false});
  auto matcher = *compile(prepared->spec, Vocabulary::of_bytes());
  std::vector<std::uint32_t> mask(8);
  for (const char c : std::string_view("{\"key\": \"val")) benchmark::DoNotOptimize(matcher.consume(c));
  for (auto _ : state) benchmark::DoNotOptimize(matcher.compute_mask(mask));
}
BENCHMARK(mask_of_bytes)->Unit(benchmark::kMicrosecond);

void translate_gbnf(benchmark::State& state) {
  const std::string text =
      "root ::= object\nvalue ::= object | array | string | number | (\"true\" | \"false\" | \"null\") ws\n"
      "object ::= \"{\" ws (string \":\" ws value (\",\" ws string \":\" ws value)*)? \"}\" ws\n"
      "array ::= \"[\" ws (value (\",\" ws value)*)? \"]\" ws\n"
      "string ::= \"\\\"\" ([^\"\\\\\\x7F\\x00-\\x1F] | \"\\\\\" ([\"\\\\bfnrt] | \"u\" [0-9a-fA-F]{4}))* "
      "\"\\\"\" ws\n"
      "number ::= (\"-\"? ([0-9] | [1-9] [0-9]{0,15})) (\".\" [0-9]+)? ([eE] [-+]? [0-9] [1-9]{0,15})? ws\n"
      "ws ::= | \" \" | \"\\n\" [ \\t]{0,20}\n";
  for (auto _ : state) benchmark::DoNotOptimize(gbnf_to_lark(text));
}
BENCHMARK(translate_gbnf)->Unit(benchmark::kMicrosecond);

void validate_100_kb(benchmark::State& state) {
  json::array list;
  for (int i = 0; i < 2000; ++i)
    list.push_back(
        json::object{{"id", i}, {"name", fmt::format("name {}", i)}, {"tags", json::array{"a", "b"}}});
  Validator validator(json::object{
      {"type", "array"},
      {"items",
       {{"type", "object"},
        {"properties", {{"id", {{"type", "integer"}}}, {"name", {{"type", "string"}, {"pattern", "^name"}}}}},
        {"required", json::array{"id", "name"}}}}});
  const json::value value = list;
  for (auto _ : state) benchmark::DoNotOptimize(validator.check(value));
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * json::serialize(value).size()));
}
BENCHMARK(validate_100_kb)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace gezel::grammar
