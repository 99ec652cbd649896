// What probing finds in every template of the pinned source, and whether its prompt leaves a reasoning block open. The rows
// were recorded from a run and checked against the reference's renderings; a new template adds a line.
#include "template/probe.h"

#include <gtest/gtest.h>

#include "base/clock.h"
#include "template/chat_template.h"
#include "template/test_support.h"

namespace gezel::chat {
namespace {

using namespace testing_support;

std::string reasoning_open(ChatTemplate& chat_template, std::string kwargs) {
  prompt::GenerateRequest request;
  prompt::Message message;
  // Writing about a marker must not count.
  message.content = {{prompt::ContentPart::Kind::text, "What is <think>?"}};
  request.messages = {message};
  request.template_kwargs = std::move(kwargs);
  const auto rendered = chat_template.render(request);
  return !rendered ? "refused" : rendered->reasoning_open ? "open" : "closed";
}

json::object found_in(const std::string& source) {
  const ManualClock clock;
  const auto renderer = Renderer::compile(source);
  const Probed probed = probe(*renderer, source, {"<s>", "</s>"}, false, 0);
  TemplateOptions options;
  options.source = source;
  options.bos_token = "<s>";
  options.eos_token = "</s>";
  const auto chat_template = ChatTemplate::create(std::move(options), clock);
  static constexpr const char* kReplay[] = {"dropped", "reasoning_content", "thinking", "blocks"};
  json::array traits;
  if (!probed.traits.system_role) traits.emplace_back("no system role");
  if (!probed.traits.tool_results) traits.emplace_back("no tool results");
  if (!probed.traits.calls) traits.emplace_back("no calls");
  if (!probed.tools) traits.emplace_back("no tools");
  if (probed.traits.text_arguments) traits.emplace_back("arguments as text");
  if (probed.traits.typed_content) traits.emplace_back("typed content");
  if (probed.traits.fold_tool_results) traits.emplace_back("folded results");
  if (probed.traits.short_call_ids) traits.emplace_back("short ids");
  if (probed.traits.developer_role) traits.emplace_back("developer role");
  if (probed.traits.sort_tool_results) traits.emplace_back("sorted results");
  if (probed.traits.trim_content) traits.emplace_back("trimmed content");
  if (probed.reasoning_effort) traits.emplace_back("reasoning effort");
  return {{"traits", traits},
          {"past_reasoning", kReplay[static_cast<int>(probed.traits.reasoning)]},
          {"reasoning", probed.reasoning},
          {"thinking", reasoning_open(**chat_template, "")},
          {"not_thinking", reasoning_open(**chat_template, R"({"enable_thinking":false})")}};
}

TEST(Probe, FindsInEveryPinnedTemplateWhatIsListed) {
  std::map<std::string, json::object> expected;
  for (const auto& line : read_lines(testdata("traits.jsonl"))) {
    json::object row = line.as_object();
    const std::string name = string_or(row, "template");
    row.erase("template");
    expected[name] = std::move(row);
  }
  const auto templates = pinned_templates();
  EXPECT_EQ(templates.size(), expected.size());
  for (const auto& [name, source] : templates) {
    EXPECT_EQ(json::value(found_in(source)), json::value(expected[name])) << name;
  }
}

}  // namespace
}  // namespace gezel::chat
