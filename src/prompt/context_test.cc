#include "prompt/context.h"

#include <gtest/gtest.h>

namespace gezel::prompt {
namespace {

Message message(Role role, std::string text) {
  Message out;
  out.role = role;
  out.content = {{ContentPart::Kind::text, std::move(text)}};
  return out;
}

std::string messages_of(const std::vector<Message>& messages, const TemplateTraits& traits = {}) {
  const auto parsed = parse_json(context_text(messages, {}, {}, {}, traits));
  EXPECT_TRUE(parsed) << parsed.error().message;
  return to_json(parsed->as_object().at("messages"));
}

TEST(ContextText, HoldsEveryVariableInAFixedOrder) {
  const json::object variables{{"enable_thinking", false}, {"custom", 1}};
  EXPECT_EQ(
      context_text({message(Role::user, "a\"b\n")}, {}, variables, {"<s>", "</s>"}, {}),
      R"({"messages":[{"role":"user","content":"a\"b\n"}],"tools":null,"documents":null,)"
      R"("add_generation_prompt":true,"bos_token":"<s>","eos_token":"</s>","enable_thinking":false,"custom":1})");
}

TEST(ContextText, ToolsAreInsertedByteForByte) {
  const std::string tool = R"({"type": "function",  "function": {"name":"x","z":1.50,"a":[]}})";
  EXPECT_NE(
      context_text({}, {{"x", tool}, {"x", tool}}, {}, {}, {}).find("\"tools\":[" + tool + "," + tool + "]"),
      std::string::npos);
}

TEST(ContextText, AVariableCannotReplaceTheMessages) {
  const json::object variables{{"messages", 1}, {"tools", 2}, {"bos_token", 3}, {"ok", 4}};
  const std::string text = context_text({}, {}, variables, {"<s>", ""}, {});
  EXPECT_EQ(text,
            R"({"messages":[],"tools":null,"documents":null,"add_generation_prompt":true,"bos_token":"<s>",)"
            R"("eos_token":"","ok":4})");
}

TEST(ContextText, ArgumentsAreAnObjectWhenTheyParseAsOne) {
  Message call = message(Role::assistant, "");
  call.tool_calls = {
      {"c1", "f", R"({"b": 1, "a": 12345678901234567890123})"}, {"c2", "g", "not json"}, {"c3", "h", "[1]"}};
  const std::string text = context_text({call}, {}, {}, {}, {});
  EXPECT_NE(text.find(R"("arguments":{"b": 1, "a": 12345678901234567890123})"), std::string::npos);
  EXPECT_NE(text.find(R"("arguments":"not json")"), std::string::npos);
  EXPECT_NE(text.find(R"("arguments":"[1]")"), std::string::npos);
  const std::string as_text = context_text({call}, {}, {}, {}, {.text_arguments = true});
  EXPECT_NE(as_text.find(R"("arguments":"{\"b\": 1)"), std::string::npos);
}

TEST(ContextText, ReasoningGoesWhereTheTemplateLooksForIt) {
  Message answer = message(Role::assistant, "A");
  answer.reasoning = "hm";
  EXPECT_EQ(messages_of({answer}), R"([{"role":"assistant","content":"A"}])");
  EXPECT_EQ(messages_of({answer}, {.reasoning = ReasoningReplay::reasoning_content}),
            R"([{"role":"assistant","content":"A","reasoning_content":"hm"}])");
  EXPECT_EQ(messages_of({answer}, {.reasoning = ReasoningReplay::thinking}),
            R"([{"role":"assistant","content":"A","thinking":"hm"}])");
  EXPECT_EQ(
      messages_of({answer}, {.reasoning = ReasoningReplay::blocks}),
      R"([{"role":"assistant","content":[{"type":"thinking","thinking":"hm"},{"type":"text","text":"A"}]}])");
}

TEST(ContextText, ImagesAndTypedContentAreLists) {
  Message user = message(Role::user, "What?");
  EXPECT_EQ(messages_of({user}, {.typed_content = true}),
            R"([{"role":"user","content":[{"type":"text","text":"What?"}]}])");
  user.content.push_back({ContentPart::Kind::image, "data:image/png;base64,AA=="});
  EXPECT_EQ(messages_of({user}),
            R"([{"role":"user","content":[{"type":"text","text":"What?"},{"type":"image"}]}])");
}

TEST(ContextText, FoldedResultsBelongToTheMessageWithTheCalls) {
  Message call = message(Role::assistant, "");
  call.tool_calls = {{"c1", "f", "{}"}};
  Message result = message(Role::tool, "ok");
  result.tool_call_id = "c1";
  result.name = "f";
  EXPECT_EQ(messages_of({call, result, message(Role::user, "next")}, {.fold_tool_results = true}),
            R"([{"role":"assistant","content":"","tool_calls":[{"id":"c1","type":"function","function":)"
            R"({"name":"f","arguments":{}}}],"tool_responses":[{"name":"f","response":"ok"}]},)"
            R"({"role":"user","content":"next"}])");
}

GenerateRequest with(std::string effort, std::string kwargs) {
  GenerateRequest request;
  request.reasoning_effort = std::move(effort);
  request.template_kwargs = std::move(kwargs);
  return request;
}

std::string variables_of(const GenerateRequest& request, bool wants_effort = true) {
  const auto variables = template_variables(request, wants_effort);
  return variables ? to_json(*variables) : variables.error().code;
}

TEST(TemplateVariables, ThinkingIsOnUnlessTheRequestSaysOtherwise) {
  EXPECT_EQ(variables_of(with("", "")), R"({"enable_thinking":true})");
  EXPECT_EQ(variables_of(with("none", "")), R"({"enable_thinking":false})");
  EXPECT_EQ(variables_of(with("", R"({"enable_thinking":false,"x":[1]})")),
            R"({"enable_thinking":false,"x":[1]})");
}

TEST(TemplateVariables, EffortIsPassedToTemplatesThatMentionIt) {
  EXPECT_EQ(variables_of(with("low", "")), R"({"enable_thinking":true,"reasoning_effort":"low"})");
  EXPECT_EQ(variables_of(with("low", ""), false), R"({"enable_thinking":true})");
}

TEST(TemplateVariables, WhatIsNoObjectIsRefused) {
  EXPECT_EQ(variables_of(with("", "[1]")), "invalid_type");
  EXPECT_EQ(variables_of(with("", "{")), "invalid_json");
  EXPECT_EQ(template_variables(with("", "{"), true).error().param, "chat_template_kwargs");
}

}  // namespace
}  // namespace gezel::prompt
