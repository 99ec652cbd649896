// turn/parser_test_support.h
//
// For tests and benchmarks: the tools of spec 50 section 17.1, and a parser fed in given pieces.
#pragma once
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "turn/parser.h"

namespace gezel::turn {

// The callable tools of the parse cases.
inline const std::vector<ToolSchema>& case_tools() {
  static const std::vector<ToolSchema> kTools = [] {
    std::vector<ToolSchema> tools;
    const auto add = [&](std::string name, std::string_view schema) {
      tools.push_back(make_tool_schema(std::move(name), parse_json(schema)->as_object()));
    };
    add("get_weather", R"({"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer"},
        "units":{"type":"string","enum":["c","f"]}},"required":["city"]})");
    add("add", R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}},
        "required":["a","b"]})");
    add("write_file", R"({"type":"object","properties":{"path":{"type":"string"},"content":{"type":"string"}},
        "required":["path","content"]})");
    add("search", R"({"type":"object","properties":{"query":{"type":"string"},
        "filters":{"type":"object","properties":{"year":{"type":"integer"}}},
        "tags":{"type":"array","items":{"type":"string"}},"exact":{"type":"boolean"}},"required":["query"]})");
    add("ping", R"({"type":"object","properties":{}})");
    return tools;
  }();
  return kTools;
}

// Always the same bytes, so that ids differ only by how often they were asked for.
class CountingEntropy final : public Entropy {
 public:
  void fill(unsigned char* out, std::size_t size) override {
    for (std::size_t i = 0; i < size; ++i) out[i] = static_cast<unsigned char>(next_++ % 62);
  }

 private:
  unsigned next_ = 0;
};

// What a consumer of the events sees.
struct Seen {
  std::string reasoning, content;  // deltas, concatenated
  struct SeenCall {
    std::string id, name, arguments;
    int begins = 0, ends = 0;
    CallOutcome outcome = CallOutcome::complete;
    int fragments = 0;
  };
  std::vector<SeenCall> calls;
  std::optional<Replace> replace;
  bool in_order = true;  // one call at a time, fragments between its begin and its end

  void add(const Events& events) {
    for (const Event& event : events) {
      if (const auto* delta = std::get_if<ReasoningDelta>(&event)) reasoning += delta->text;
      if (const auto* delta = std::get_if<ContentDelta>(&event)) content += delta->text;
      if (const auto* begin = std::get_if<CallBegin>(&event)) {
        in_order = in_order && begin->index == static_cast<int>(calls.size()) &&
                   (calls.empty() || calls.back().ends == 1);
        calls.push_back({begin->id, begin->name, {}, 1, 0, CallOutcome::complete, 0});
      }
      if (const auto* delta = std::get_if<CallArgumentsDelta>(&event)) {
        in_order = in_order && delta->index + 1 == static_cast<int>(calls.size()) && calls.back().ends == 0;
        if (!calls.empty()) calls.back().arguments += delta->text, ++calls.back().fragments;
      }
      if (const auto* end = std::get_if<CallEnd>(&event)) {
        in_order = in_order && end->index + 1 == static_cast<int>(calls.size()) && calls.back().ends == 0;
        if (!calls.empty()) ++calls.back().ends, calls.back().outcome = end->outcome;
      }
      if (const auto* whole = std::get_if<Replace>(&event)) replace = *whole;
    }
  }
};

struct Parsed {
  Message message;
  Seen seen;
};

inline Parsed parse_pieces(const std::vector<std::string_view>& pieces, ParserOptions options,
                           FinishReason reason = FinishReason::stop) {
  CountingEntropy entropy;
  CallIds ids(entropy);
  options.ids = &ids;
  Parser parser(std::move(options));
  Parsed parsed;
  for (const std::string_view piece : pieces) parsed.seen.add(parser.feed(piece));
  Parser::Finished finished = parser.finish(reason);
  parsed.seen.add(finished.events);
  parsed.message = std::move(finished.message);
  return parsed;
}

// Everything a message says, as one text to compare.
inline std::string describe(const Message& message) {
  const auto list = [](const std::vector<std::string>& items) {
    std::string out;
    for (const std::string& item : items) out += item + "|";
    return out;
  };
  std::string out = "reasoning: " + message.reasoning + "\ncontent: " + message.content + "\n";
  for (std::size_t i = 0; i < message.calls.size(); ++i) {
    const Call& call = message.calls[i];
    out += std::to_string(message.indexes[i]) + " " + call.id + " " + call.name + " " + call.arguments_text +
           " " + compact_json(call.arguments) + " " + to_string(call.provenance.source) + " R" +
           std::to_string(call.provenance.repair) + (call.provenance.coerced ? " coerced " : " ") +
           std::to_string(call.provenance.text_span.begin) + ".." +
           std::to_string(call.provenance.text_span.end) + "\n";
  }
  out += "unknown: " + list(message.unknown) + "\ntruncated: " + list(message.truncated) +
         "\nmalformed: " + std::to_string(message.malformed) + "\nrepairs: " + list(message.repairs) + "\n";
  for (const Unparsed& text : message.unparsed) out += "unparsed: " + text.name + " " + text.text + "\n";
  for (const Call& call : message.cut)
    out += "cut: " + call.id + " " + call.name + " " + call.arguments_text + "\n";
  for (const Abandoned& call : message.abandoned) {
    out += "abandoned: " + std::to_string(call.index) + " " + call.name + " " + call.arguments + "\n";
  }
  const ParseFlags& f = message.flags;
  for (const bool flag : {f.prose_repaired, f.xml_tag_repaired, f.claude_invoke_repaired, f.glm_repaired,
                          f.hermes_repaired, f.shell_repaired, f.envelope_repaired, f.envelope_truncated,
                          f.bare_invoke_repaired, f.truncated_salvage, f.unknown_call, message.rescued}) {
    out += flag ? '1' : '0';
  }
  return out;
}

}  // namespace gezel::turn
