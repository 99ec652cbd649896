// What one token costs on its way to the wire.
#include <benchmark/benchmark.h>

#include "api/chat.h"

namespace gezel::api {
namespace {

void content_frame(benchmark::State& state) {
  const ChatFrames frames(
      {"chatcmpl-0f6f6c5e-6b0c-4c53-8f8e-0f5b1d3c2a1b", 1700000000, "llama-cpp:model", "gezel-1", true});
  for (auto _ : state) benchmark::DoNotOptimize(frames.content(" token", {}, false));
}
BENCHMARK(content_frame);

void parse_long_conversation(benchmark::State& state) {
  std::string body = R"({"model":"m","messages":[)";
  for (int i = 0; i < 100; ++i) {
    body += R"({"role":"user","content":")" + std::string(1000, 'x') +
            R"("},{"role":"assistant","content":"y"},)";
  }
  body += R"({"role":"user","content":"z"}]})";
  for (auto _ : state) benchmark::DoNotOptimize(parse_chat_request(body));
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(body.size()));
}
BENCHMARK(parse_long_conversation);

}  // namespace
}  // namespace gezel::api
