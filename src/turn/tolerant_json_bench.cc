// Speed on strict JSON, and that hostile text costs no more per byte however much of it there is: the
// complexity reported for each Hostile benchmark must be linear.
#include <benchmark/benchmark.h>

#include "turn/tolerant_json.h"

namespace gezel::turn {
namespace {

void count_bytes(benchmark::State& state, std::size_t bytes) {
  state.SetBytesProcessed(static_cast<std::int64_t>(bytes) * state.iterations());
}

// A file written by a call: mostly one long string with escapes.
std::string file_call() {
  std::string content;
  for (int i = 0; i < 2000; ++i) content += "  const x = \\\"value\\\"; // a line of code\\n";
  return R"({"name":"write_file","arguments":{"path":"src/a.js","content":")" + content + "\"}}";
}

// Many small members.
std::string list_call() {
  std::string rows;
  for (int i = 0; i < 2000; ++i) {
    rows += R"({"id": )" + std::to_string(i) + R"(, "name": "row", "ok": true, "share": 0.25},)";
  }
  rows.pop_back();
  return R"({"name": "store", "arguments": {"rows": [)" + rows + "]}}";
}

// One object of many small members.
std::string wide_call() {
  std::string members;
  for (int i = 0; i < 20'000; ++i)
    members += "\"k" + std::to_string(i) + "\":" + std::to_string(i % 10) + ",";
  members.pop_back();
  return R"({"name": "store", "arguments": {)" + members + "}}";
}

void Read(benchmark::State& state, const std::string& text) {
  for (auto _ : state) benchmark::DoNotOptimize(read_json(text));
  count_bytes(state, text.size());
}
BENCHMARK_CAPTURE(Read, file_call, file_call());
BENCHMARK_CAPTURE(Read, list_call, list_call());
BENCHMARK_CAPTURE(Read, wide_call, wide_call());
BENCHMARK_CAPTURE(Read, small_call,
                  std::string(R"({"name": "get_weather", "arguments": {"city": "Oslo", "days": 3}})"));

void Extent(benchmark::State& state, const std::string& text, std::size_t piece) {
  for (auto _ : state) {
    JsonExtent extent;
    for (std::size_t at = 0; at < text.size(); at += piece)
      extent.feed(std::string_view(text).substr(at, piece));
    benchmark::DoNotOptimize(extent.end());
  }
  count_bytes(state, text.size());
}
BENCHMARK_CAPTURE(Extent, file_call, file_call(), 1 << 20);
BENCHMARK_CAPTURE(Extent, list_call, list_call(), 1 << 20);
BENCHMARK_CAPTURE(Extent, file_call_as_tokens, file_call(), 4);

void Hostile(benchmark::State& state, const std::string& front, const std::string& piece) {
  static constexpr std::string_view kClosers[] = {"</tool_call>"};
  JsonOptions options;
  options.closers = kClosers;
  options.gemma_quotes = true;
  options.max_bytes = 64 << 20;
  std::string text = front;
  while (text.size() < static_cast<std::size_t>(state.range(0))) text += piece;
  for (auto _ : state) benchmark::DoNotOptimize(read_json(text, options));
  count_bytes(state, text.size());
  state.SetComplexityN(state.range(0));
}
#define HOSTILE(name, front, piece)              \
  BENCHMARK_CAPTURE(Hostile, name, front, piece) \
      ->RangeMultiplier(4)                       \
      ->Range(1 << 16, 1 << 22)                  \
      ->Complexity(benchmark::oN)                \
      ->Unit(benchmark::kMillisecond)
HOSTILE(brackets, "", "[");
HOSTILE(objects, "", "{\"a\":");
HOSTILE(quotes, "", "\"");
HOSTILE(quotes_in_a_string, "{\"a\":\"", "\"");
HOSTILE(quotes_and_blanks, "{\"a\":\"", "\"      ");
HOSTILE(beginnings_of_a_closer, "{\"a\":\"", "\"</tool_call");
HOSTILE(beginnings_of_a_gemma_quote, "{\"a\":<|\"|>", "<|\"|");
HOSTILE(stars, "{\"a\":*/", "*/ ");
HOSTILE(commas, "[", ",");
HOSTILE(backslashes, "[\"", "\\");
HOSTILE(high_surrogates, "[\"", "\\ud83d");
HOSTILE(small_objects, "[", "{},");
HOSTILE(nested_and_closed, "[", "[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]],");

}  // namespace
}  // namespace gezel::turn
