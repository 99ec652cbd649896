// Rendering a conversation of 100 and of 1000 messages.
#include <benchmark/benchmark.h>

#include "template/chat_template.h"
#include "template/default_templates.h"

namespace {

using namespace gezel;

prompt::GenerateRequest conversation(int messages) {
  prompt::GenerateRequest request;
  std::string words;
  for (int i = 0; i < 60; ++i) words += "word ";
  for (int i = 0; i < messages; ++i) {
    prompt::Message message;
    message.role = i % 2 == 0 ? prompt::Role::user : prompt::Role::assistant;
    message.content = {{prompt::ContentPart::Kind::text, words}};
    request.messages.push_back(std::move(message));
  }
  return request;
}

void render(benchmark::State& state) {
  static const SystemClock kClock;
  chat::TemplateOptions options;
  options.source = chat::default_templates()[1].source;
  const auto chat_template = chat::ChatTemplate::create(options, kClock);
  const auto request = conversation(static_cast<int>(state.range(0)));
  for (auto _ : state) benchmark::DoNotOptimize((*chat_template)->render(request));
}
BENCHMARK(render)->Arg(100)->Arg(1000)->Unit(benchmark::kMicrosecond);

}  // namespace
