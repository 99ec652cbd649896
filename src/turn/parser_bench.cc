// Bytes per second through the parser: prose, calls, and texts made to be slow.
#include <benchmark/benchmark.h>

#include <functional>

#include "turn/parser_test_support.h"
#include "turn/splitter.h"

namespace gezel::turn {
namespace {

constexpr std::size_t kMegabyte = 1 << 20;

std::string repeated(std::string_view part, std::size_t size) {
  std::string text;
  while (text.size() < size) text += part;
  return text;
}

void run(benchmark::State& state, const std::string& text, std::size_t piece, ParserOptions options = {}) {
  options.tools = case_tools();
  for (auto _ : state) {
    Parser parser(options);
    std::size_t events = 0;
    for (std::size_t at = 0; at < text.size(); at += piece) {
      events += parser.feed(std::string_view(text).substr(at, piece)).size();
    }
    Parser::Finished finished = parser.finish(FinishReason::stop);
    benchmark::DoNotOptimize(finished);
    benchmark::DoNotOptimize(events);
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * text.size()));
}

const std::string& prose() {
  static const std::string kText = repeated(
      "The quick brown fox jumps over the lazy dog, and then (for a change) it sleeps until 9 o'clock.\n"
      "Prices rose by 3.5% - which nobody expected - while `costs` stayed < 100 in most of the cases.\n\n",
      8 * kMegabyte);
  return kText;
}

void Prose(benchmark::State& state) {
  run(state, prose(), static_cast<std::size_t>(state.range(0)));
}
BENCHMARK(Prose)->Arg(4)->Arg(64)->Arg(4096)->Arg(65536);

// Prose with the scan for weak calls left out, as for large models.
void ProseStrongOnly(benchmark::State& state) {
  run(state, prose(), 4096, {.salvage = SalvageLevel::strong});
}
BENCHMARK(ProseStrongOnly);

void Reasoning(benchmark::State& state) {
  run(state, prose(), 4096, {.start = StartState::open});
}
BENCHMARK(Reasoning);

void Construction(benchmark::State& state) {
  run(state, "Hi", 2);
}
BENCHMARK(Construction);

const std::vector<std::pair<std::string, std::string>>& calls() {
  static const std::string kFile = repeated("int main() { return 0; }\\n", kMegabyte / 2);
  static const std::string kRawFile = repeated("int main() { return 0; }\n", kMegabyte / 2);
  static const std::vector<std::pair<std::string, std::string>> kCalls = {
      {"hermes",
       R"(<tool_call>{"name":"write_file","arguments":{"path":"a","content":")" + kFile + "\"}}</tool_call>"},
      {"qwen", "<function=write_file><parameter=path>a</parameter><parameter=content>" + kRawFile +
                   "</parameter></function>"},
      {"glm",
       "<tool_call>write_file<arg_key>content</arg_key><arg_value>" + kRawFile + "</arg_value></tool_call>"},
      {"gemma", "<|tool_call>call:write_file{content:<|\"|>" + kRawFile + "<|\"|>}<tool_call|>"},
      {"many",
       repeated("<tool_call>{\"name\":\"add\",\"arguments\":{\"a\":1,\"b\":2}}</tool_call>\n", kMegabyte)},
  };
  return kCalls;
}

// Texts that invite looking at the same byte again and again.
std::vector<std::pair<std::string, std::string>> hostile() {
  std::vector<std::pair<std::string, std::string>> texts;
  for (const std::string_view part : {"<",
                                      "[",
                                      "{\"name\":",
                                      "<|",
                                      "`",
                                      "<tool_call>",
                                      "</think>",
                                      "<think>",
                                      "<tools ",
                                      "<tool>{",
                                      "<tool_calls> ",
                                      "[TOOL_CALLS]",
                                      "<abcdefghijklmnopqrstuvwxyz",
                                      "ping(",
                                      "add(a=",
                                      "{",
                                      "[{",
                                      "\n",
                                      " ",
                                      "```\n",
                                      "<ping>",
                                      "invoke ping {",
                                      "<function=a><parameter=b>",
                                      "<tool_call>add<arg_key>a</arg_key><arg_value>",
                                      "<invoke name=\"ping\">",
                                      "content:<|\"|>",
                                      "]<]minimax[>[<",
                                      "functions.add",
                                      "`{",
                                      "<think> ",
                                      "&amp;"}) {
    texts.emplace_back("repeat " + std::string(part.substr(0, 16)), repeated(part, kMegabyte));
  }
  const auto call = [](const std::string& arguments) {
    return R"(<tool_call>{"name":"search","arguments":{"query":)" + arguments;
  };
  texts.emplace_back("nesting", call(repeated("[", kMegabyte)));
  texts.emplace_back("inner quotes", call("\"" + repeated("\" x", kMegabyte)));
  texts.emplace_back("quotes and space", call("\"" + repeated("\"    ", kMegabyte)));
  texts.emplace_back("many keys", call("1" + repeated(",\"k\":1", kMegabyte)));
  texts.emplace_back("escapes", call("\"" + repeated("\\u00e9", kMegabyte)));
  texts.emplace_back("unclosed parameter",
                     "<function=write_file><parameter=content>" + repeated("</parame", kMegabyte));
  texts.emplace_back("glm closers", "<tool_call>write_file<arg_key>content</arg_key><arg_value>" +
                                        repeated("</tool_call><arg_key>x</arg_key>", kMegabyte));
  texts.emplace_back("harmless blocks", repeated("a <think>b</think> ", kMegabyte));
  texts.emplace_back("space and blocks", std::string(60000, ' ') + repeated("<think></think>", kMegabyte));
  return texts;
}

const bool kRegistered = [] {
  for (const auto& [name, text] : calls()) {
    for (const std::size_t piece : {std::size_t{4}, std::size_t{65536}}) {
      benchmark::RegisterBenchmark(
          ("Call/" + name + "/" + std::to_string(piece)).c_str(),
          [&body = text, piece](benchmark::State& state) { run(state, body, piece); });
    }
  }
  static const auto kHostile = hostile();
  for (const auto& [name, text] : kHostile) {
    for (const std::size_t piece : {std::size_t{1}, std::size_t{65536}}) {
      benchmark::RegisterBenchmark(
          ("Hostile/" + name + "/" + std::to_string(piece)).c_str(),
          [&body = text, piece](benchmark::State& state) { run(state, body, piece); })
          ->Iterations(1);
    }
  }
  return true;
}();

void Tracker(benchmark::State& state) {
  const SplitterOptions options{.calls = true};
  for (auto _ : state) {
    ReasoningTracker tracker(options, StartState::open);
    for (std::size_t at = 0; at < prose().size(); at += 4)
      tracker.feed(std::string_view(prose()).substr(at, 4));
    benchmark::DoNotOptimize(tracker.inside());
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * prose().size()));
}
BENCHMARK(Tracker);

}  // namespace
}  // namespace gezel::turn
