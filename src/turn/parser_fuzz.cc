// The input is three bytes of settings and a message. Whole and cut into pieces it must give the same, the
// events must say what the message says, and nothing may be made up.
#include <cstdlib>
#include <random>

#include "turn/parser_test_support.h"
#include "turn/reasoning_markers.h"
#include "turn/splitter.h"

using namespace gezel::turn;

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

// The words of all grammars.
const std::vector<std::string>& words() {
  static const std::vector<std::string> kWords = [] {
    std::vector<std::string> all = {"<parameter=city>",
                                    "</parameter>",
                                    "</function>",
                                    "<function=add>",
                                    "<invoke name=\"add\">",
                                    "<parameter name=\"a\">",
                                    "</invoke>",
                                    "<arg_key>",
                                    "</arg_key>",
                                    "<arg_value>",
                                    "</arg_value>",
                                    "[ARGS]",
                                    "[CALL_ID]",
                                    "{\"name\":\"add\",\"arguments\":{\"a\":1,\"b\":2}}",
                                    "get_weather",
                                    "\"city\"",
                                    "call:ping{}",
                                    "<|\"|>",
                                    "<escape>",
                                    "```json\n",
                                    "```",
                                    "ping()",
                                    "add(a=1,b=2)",
                                    "<|message|>",
                                    "<|channel|>",
                                    "<|open|>argument key=\"a\" type=\"number\"<|sep|>",
                                    "<|close|>argument<|sep|>",
                                    "<|tool_call:name|>",
                                    "<|tool_call:args|>",
                                    "\n\n",
                                    "{",
                                    "}",
                                    "[",
                                    "]",
                                    "\"",
                                    "'",
                                    "\\",
                                    "True",
                                    "null",
                                    ",",
                                    ":",
                                    "="};
    for (const Dialect& row : dialects()) {
      for (const auto opener : row.openers) all.emplace_back(opener);
      for (const auto closer : row.closers) all.emplace_back(closer);
    }
    for (const ReasoningMarkers& row : reasoning_markers()) {
      all.emplace_back(row.open);
      all.emplace_back(row.close);
    }
    return all;
  }();
  return kWords;
}

void check_events(const Parsed& parsed) {
  const Message& message = parsed.message;
  const Seen& seen = parsed.seen;
  require(seen.in_order);
  if (seen.replace) {
    require(seen.replace->content == message.content && seen.replace->reasoning == message.reasoning);
  } else {
    require(seen.content == message.content && seen.reasoning == message.reasoning);
  }
  require(seen.calls.size() == message.calls.size() + message.abandoned.size());
  for (std::size_t i = 0; i < message.calls.size(); ++i) {
    const auto& call = seen.calls[static_cast<std::size_t>(message.indexes[i])];
    require(call.outcome == CallOutcome::complete && call.ends == 1);
    require(call.arguments == message.calls[i].arguments_text && call.id == message.calls[i].id);
    const auto read = gezel::parse_json(message.calls[i].arguments_text);
    require(read.has_value() && read->is_object());
    require(canonical_json(*read) == canonical_json(message.calls[i].arguments));
  }
  for (const Abandoned& call : message.abandoned) {
    const auto& told = seen.calls[static_cast<std::size_t>(call.index)];
    require(told.outcome == call.outcome && told.outcome != CallOutcome::complete &&
            told.arguments == call.arguments);
  }
}

// A character may become U+FFFD, white space a blank line, text of a string an escape.
void check_bounds(const Message& message, std::size_t size) {
  std::size_t bytes = message.reasoning.size() + message.content.size();
  for (const Call& call : message.calls) bytes += call.arguments_text.size();
  require(bytes <= 16 * size + 4096);
  require(message.calls.size() <= kMaxCalls && message.unparsed.size() <= kMaxReported);
}

}  // namespace

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  std::minstd_rand random(seed);
  if (size < 3 || random() % 2 == 0) return LLVMFuzzerMutate(data, size, max_size);
  const std::string& word = words()[random() % words().size()];
  if (size + word.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  const std::size_t at = 3 + random() % (size - 2);
  std::copy_backward(data + at, data + size, data + size + word.size());
  std::copy(word.begin(), word.end(), data + at);
  return size + word.size();
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 3) return 0;
  ParserOptions options;
  options.family = static_cast<Family>(data[0] % 15);
  options.start = static_cast<StartState>(data[1] % 3);
  options.split_reasoning = (data[1] & 4) == 0;
  options.tool_open_ends_reasoning = (data[1] & 8) == 0;
  options.parallel_calls = (data[1] & 16) == 0;
  options.capture_pre_tool_prose = (data[1] & 32) != 0;
  options.salvage = static_cast<SalvageLevel>(2 - data[2] % 3);
  options.tools = case_tools();
  const FinishReason reason = (data[1] & 64) != 0 ? FinishReason::length : FinishReason::stop;
  const std::string_view text(reinterpret_cast<const char*>(data) + 3, size - 3);

  const Parsed whole = parse_pieces({text}, options, reason);
  check_events(whole);
  check_bounds(whole.message, text.size());

  std::minstd_rand random(data[2]);
  const std::size_t longest = 1 + random() % 12;
  std::vector<std::string_view> pieces;
  for (std::size_t at = 0; at < text.size(); at += pieces.back().size()) {
    pieces.push_back(text.substr(at, 1 + random() % longest));
  }
  const Parsed split = parse_pieces(pieces, options, reason);
  check_events(split);
  require(describe(split.message) == describe(whole.message));

  // The splitter alone, as the worker runs it.
  const SplitterOptions alone{.family = options.family, .calls = true};
  ReasoningTracker once(alone, options.start), often(alone, options.start);
  once.feed(text);
  for (const std::string_view piece : pieces) often.feed(piece);
  require(once.inside() == often.inside() && once.pending() == often.pending());
  return 0;
}
