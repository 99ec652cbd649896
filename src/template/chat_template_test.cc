#include "template/chat_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "template/default_templates.h"

namespace gezel::chat {
namespace {

using prompt::Role;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

prompt::Message message(Role role, std::string text) {
  prompt::Message out;
  out.role = role;
  out.content = {{prompt::ContentPart::Kind::text, std::move(text)}};
  return out;
}

prompt::GenerateRequest ask(std::vector<prompt::Message> messages) {
  prompt::GenerateRequest request;
  request.messages = std::move(messages);
  return request;
}

prompt::GenerateRequest hello() {
  return ask({message(Role::user, "Hello")});
}

prompt::Tool weather() {
  return {"get_weather", R"({"type":"function","function":{"name":"get_weather","description":"Weather.",)"
                         R"("parameters":{"type":"object","properties":{}}}})"};
}

class ChatTemplateTest : public testing::Test {
 protected:
  std::unique_ptr<ChatTemplate> make(std::string source) {
    TemplateOptions options;
    options.source = std::move(source);
    options.bos_token = "<s>";
    options.eos_token = "</s>";
    auto made = ChatTemplate::create(std::move(options), clock_);
    EXPECT_TRUE(made) << made.error().message;
    return std::move(*made);
  }
  std::unique_ptr<ChatTemplate> make_default(std::string_view token) {
    TemplateOptions options;
    options.bos_token = "<s>";
    options.eos_token = "</s>";
    options.has_special_token = [token = std::string(token)](std::string_view text) { return text == token; };
    return *ChatTemplate::create(std::move(options), clock_);
  }
  static std::string text(ChatTemplate& chat_template, const prompt::GenerateRequest& request) {
    const auto rendered = chat_template.render(request);
    return rendered ? rendered->text : "error: " + rendered.error().code + ": " + rendered.error().message;
  }

  ManualClock clock_;  // 2023-11-14 22:13:20
};

constexpr std::string_view kEcho =
    "{% for m in messages %}[{{ m.role }}|{{ m.content }}{% for c in m.tool_calls or [] %}|{{ "
    "c.function.name }}"
    "{% endfor %}]{% endfor %}{% if tools %}{{ tools | tojson }}{% endif %}";

TEST_F(ChatTemplateTest, RendersMessagesAndTokens) {
  auto chat = make("{{ bos_token }}" + std::string(kEcho) + "{{ eos_token }}{{ add_generation_prompt }}");
  EXPECT_EQ(text(*chat, hello()), "<s>[user|Hello]</s>True");
}

TEST_F(ChatTemplateTest, ATemplateThatDoesNotCompileIsRefusedWithItsLine) {
  TemplateOptions options;
  options.source = "a\n{% if %}";
  const auto made = ChatTemplate::create(std::move(options), clock_);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, "template-rejected");
  EXPECT_THAT(made.error().message, HasSubstr("line 2"));
}

TEST_F(ChatTemplateTest, VariablesOfTheRequestReachTheTemplate) {
  auto chat = make("{{ enable_thinking }}/{{ custom }}/{{ reasoning_effort }}" + std::string(kEcho));
  auto request = hello();
  request.template_kwargs = R"({"custom": 1.50, "enable_thinking": false})";
  request.reasoning_effort = "low";
  EXPECT_THAT(text(*chat, request), testing::StartsWith("False/1.5/low"));
}

TEST_F(ChatTemplateTest, B10AReasoningEffortThatIsRefusedIsLeftOutAndTheToolsStay) {
  auto chat = make("{% if reasoning_effort == 'odd' %}{{ raise_exception('effort') }}{% endif %}" +
                   std::string(kEcho));
  auto request = hello();
  request.reasoning_effort = "odd";
  request.tools = {weather()};
  const auto rendered = chat->render(request);
  ASSERT_TRUE(rendered);
  EXPECT_THAT(rendered->text, HasSubstr("get_weather"));
  EXPECT_THAT(rendered->warnings, IsEmpty());
}

TEST_F(ChatTemplateTest, B28ToolsThatMayNotBeCalledStayInThePrompt) {
  auto chat = make(std::string(kEcho));
  auto request = hello();
  request.tools = {weather()};
  const std::string free = text(*chat, request);
  EXPECT_THAT(free, HasSubstr("get_weather"));
  request.tool_choice = prompt::ToolChoice::none;
  EXPECT_EQ(text(*chat, request), free);
}

TEST_F(ChatTemplateTest, ToolsThatAreRefusedAreLeftOutWithAWarning) {
  auto chat = make(
      "{% if tools and tools[0].function.name == 'get_weather' %}{{ raise_exception('no') }}{% endif %}" +
      std::string(kEcho));
  auto request = hello();
  request.tools = {weather()};
  const auto rendered = chat->render(request);
  ASSERT_TRUE(rendered);
  EXPECT_EQ(rendered->text, "[user|Hello]");
  ASSERT_EQ(rendered->warnings.size(), 1U);
  EXPECT_THAT(rendered->warnings[0], HasSubstr("not shown its tools"));
}

TEST_F(ChatTemplateTest, TheStepThatWorkedIsTriedFirstTheNextTime) {
  // The template refuses any variable; the second request must not depend on anything the first one had.
  auto chat =
      make("{% if custom is defined %}{{ raise_exception('no variables') }}{% endif %}{{ enable_thinking }}" +
           std::string(kEcho));
  auto request = hello();
  request.template_kwargs = R"({"custom": 1})";
  EXPECT_EQ(text(*chat, request), "[user|Hello]");
  EXPECT_EQ(text(*chat, request), "[user|Hello]");
  EXPECT_EQ(text(*chat, hello()), "True[user|Hello]");
}

TEST_F(ChatTemplateTest, B11AlternationIsRepairedOnce) {
  auto chat = make(
      "{% for m in messages %}{% if m.role == 'tool' or (m.role == 'user') != (loop.index0 % 2 == 0) %}"
      "{% if messages | length > 1 %}{{ raise_exception('Conversation roles must alternate user/assistant') "
      "}}"
      "{% endif %}{% endif %}{% endfor %}" +
      std::string(kEcho));
  prompt::Message call;
  call.role = Role::assistant;
  call.tool_calls = {{"c1", "ping", "{}"}};
  prompt::Message result = message(Role::tool, "ok");
  result.tool_call_id = "c1";
  EXPECT_EQ(text(*chat, ask({message(Role::user, "go"), call, result, message(Role::user, "next")})),
            "[user|go][assistant|Called the tool ping (c1).][user|Tool result for ping (c1):\nok\n\nnext]");
}

TEST_F(ChatTemplateTest, RepairsCanBeMadeBeforeAnythingIsRefused) {
  TemplateOptions options;
  options.source = kEcho;
  options.flatten_tool_transcript = options.merge_system_messages = true;
  auto chat = ChatTemplate::create(std::move(options), clock_);
  ASSERT_TRUE(chat);
  prompt::Message call;
  call.role = Role::assistant;
  call.tool_calls = {{"c1", "ping", "{}"}};
  prompt::Message result = message(Role::tool, "ok");
  result.tool_call_id = "c1";
  EXPECT_EQ(
      text(**chat, ask({message(Role::system, "A"), message(Role::user, "go"), call, result,
                        message(Role::system, "B")})),
      "[system|A\n\nB][user|go][assistant|Called the tool ping (c1).][user|Tool result for ping (c1):\nok]");
}

TEST_F(ChatTemplateTest, B12LateSystemMessagesAreMergedAtTheFront) {
  auto chat = make(
      "{% for m in messages %}{% if m.role == 'system' and not loop.first %}"
      "{{ raise_exception('System message must be at the beginning.') }}{% endif %}{% endfor %}" +
      std::string(kEcho));
  EXPECT_EQ(
      text(*chat, ask({message(Role::system, "A"), message(Role::user, "u"), message(Role::assistant, "a"),
                       message(Role::system, "B"), message(Role::user, "v")})),
      "[system|A\n\nB][user|u][assistant|a][user|v]");
}

TEST_F(ChatTemplateTest, WhatEveryStepRefusesIsAnErrorWithTheTemplatesOwnWords) {
  auto chat = make("{% if messages[-1].content == 'bad' %}{{ raise_exception('I refuse this') }}{% endif %}" +
                   std::string(kEcho));
  const auto rendered = chat->render(ask({message(Role::user, "bad")}));
  ASSERT_FALSE(rendered);
  EXPECT_EQ(rendered.error().code, "template-rejected");
  EXPECT_THAT(rendered.error().message, HasSubstr("I refuse this"));
}

TEST_F(ChatTemplateTest, TemplateVariablesThatAreNoObjectAreAnInvalidRequest) {
  auto request = hello();
  request.template_kwargs = "[]";
  const auto rendered = make(std::string(kEcho))->render(request);
  ASSERT_FALSE(rendered);
  EXPECT_EQ(rendered.error().code, "invalid-request");
  EXPECT_EQ(rendered.error().param, "chat_template_kwargs");
}

TEST_F(ChatTemplateTest, SystemTextMovesWhereTheTemplateHasNoPlaceForIt) {
  auto chat = make("{% for m in messages if m.role != 'system' %}[{{ m.role }}|{{ m.content }}]{% endfor %}");
  EXPECT_EQ(text(*chat, ask({message(Role::system, "Be brief."), message(Role::user, "Hello")})),
            "[user|Be brief.\n\nHello]");
}

TEST_F(ChatTemplateTest, ATemplateThatTakesOnlyPartsGetsParts) {
  auto chat = make(
      "{% for m in messages %}{{ m.role }}:{% for p in m.content %}{{ p.text }}{% endfor %};{% endfor %}");
  EXPECT_EQ(text(*chat, hello()), "user:Hello;");
}

TEST_F(ChatTemplateTest, ATemplateThatTakesArgumentsAsTextGetsText) {
  auto chat = make(
      "{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}"
      "{{ c.function.name + c.function.arguments }}{% endfor %};{% endfor %}");
  prompt::Message call;
  call.role = Role::assistant;
  call.tool_calls = {{"c1", "ping", R"({"a": 1})"}};
  EXPECT_EQ(text(*chat, ask({message(Role::user, "go"), call})), R"(go;ping{"a": 1};)");
}

TEST_F(ChatTemplateTest, TheDateIsFrozenPerSession) {
  auto chat = make("{{ strftime_now('%Y-%m-%d %H:%M') }}" + std::string(kEcho));
  auto request = hello();
  request.session_key = "s1";
  EXPECT_THAT(text(*chat, request), testing::StartsWith("2023-11-14 00:00"));
  clock_.advance(std::chrono::hours(2));
  EXPECT_THAT(text(*chat, request), testing::StartsWith("2023-11-14"));
  request.session_key = "s2";
  EXPECT_THAT(text(*chat, request), testing::StartsWith("2023-11-15"));
  EXPECT_THAT(text(*chat, hello()), testing::StartsWith("2023-11-15"));
}

TEST_F(ChatTemplateTest, TellsWhetherToolsAndReasoningAreSupported) {
  EXPECT_TRUE(make(std::string(kEcho))->supports_tools());
  EXPECT_FALSE(make("{{ messages[0].content }}")->supports_tools());
  EXPECT_FALSE(make(std::string(kEcho))->supports_reasoning());
  EXPECT_TRUE(make("{{ messages[0].content }}<think>")->supports_reasoning());
  EXPECT_TRUE(make("{% if enable_thinking %}{% endif %}{{ messages[0].content }}")->supports_reasoning());
}

TEST_F(ChatTemplateTest, ToolsWithoutAPlaceAreReported) {
  auto request = hello();
  request.tools = {weather()};
  const auto rendered = make("{{ messages[0].content }}")->render(request);
  ASSERT_TRUE(rendered);
  EXPECT_EQ(rendered->warnings.size(), 1U);
}

constexpr std::string_view kThinking =
    "{% for m in messages %}{{ m.role }}:{{ m.content }};{% endfor %}assistant:"
    "{% if enable_thinking %}<think>\n{% else %}<think>\n\n</think>\n\n{% endif %}";

TEST_F(ChatTemplateTest, ReasoningIsOpenWhenTheLastOpenerHasNoCloser) {
  auto chat = make(std::string(kThinking));
  auto request = hello();
  EXPECT_TRUE(chat->render(request)->reasoning_open);
  request.template_kwargs = R"({"enable_thinking": false})";
  EXPECT_FALSE(chat->render(request)->reasoning_open);
}

TEST_F(ChatTemplateTest, MarkersThatSomebodyWroteAboutOpenAndCloseNothing) {
  auto chat =
      make("{% for m in messages %}{{ m.content }};{% endfor %}{% if enable_thinking %}<think>{% endif %}");
  auto request = ask({message(Role::user, "What does <think> mean? And <THINK>?")});
  request.template_kwargs = R"({"enable_thinking": false})";
  EXPECT_FALSE(chat->render(request)->reasoning_open);
  EXPECT_THAT(chat->render(request)->text, HasSubstr("What does <think> mean?"));
  request.template_kwargs.clear();
  EXPECT_TRUE(chat->render(request)->reasoning_open);
}

struct DefaultCase {
  const char* token;
  const char* name;
  const char* expected;
};

class DefaultTemplateTest : public ChatTemplateTest, public testing::WithParamInterface<DefaultCase> {};

TEST_P(DefaultTemplateTest, RendersAConversation) {
  auto chat = make_default(GetParam().token);
  EXPECT_EQ(chat->default_name(), GetParam().name);
  EXPECT_EQ(text(*chat, ask({message(Role::system, "Be brief."), message(Role::user, "Hello"),
                             message(Role::assistant, "Hi"), message(Role::user, "Bye")})),
            GetParam().expected);
}

INSTANTIATE_TEST_SUITE_P(
    All, DefaultTemplateTest,
    testing::Values(
        DefaultCase{
            "<start_of_turn>", "default:gemma",
            "<s><start_of_turn>user\nBe brief.\n\nHello<end_of_turn>\n<start_of_turn>model\nHi<end_of_turn>\n"
            "<start_of_turn>user\nBye<end_of_turn>\n<start_of_turn>model\n"},
        DefaultCase{
            "<|im_start|>", "default:chatml",
            "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHello<|im_end|>\n"
            "<|im_start|>assistant\nHi<|im_end|>\n<|im_start|>user\nBye<|im_end|>\n<|im_start|>assistant\n"},
        DefaultCase{"<|start_header_id|>", "default:llama3",
                    "<s><|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|>"
                    "<|start_header_id|>user<|end_header_id|>\n\nHello<|eot_id|>"
                    "<|start_header_id|>assistant<|end_header_id|>\n\nHi<|eot_id|>"
                    "<|start_header_id|>user<|end_header_id|>\n\nBye<|eot_id|>"
                    "<|start_header_id|>assistant<|end_header_id|>\n\n"},
        DefaultCase{"[INST]", "default:mistral",
                    "<s>[INST] Be brief.\n\nHello [/INST] Hi</s>[INST] Bye [/INST]"},
        DefaultCase{"", "default:plain",
                    "<s>Be brief.\n\nUser: Hello\nAssistant: Hi\nUser: Bye\nAssistant:"}));

TEST_F(ChatTemplateTest, OnlyThePlainDefaultNeedsAStopString) {
  EXPECT_THAT(make_default("")->extra_stops(), ElementsAre("\nUser:"));
  EXPECT_THAT(make_default("<|im_start|>")->extra_stops(), IsEmpty());
  auto real = make(std::string(kEcho));
  EXPECT_THAT(real->extra_stops(), IsEmpty());
  EXPECT_EQ(real->default_name(), "");
}

TEST_F(ChatTemplateTest, DefaultsShowToolResultsAsText) {
  prompt::Message call;
  call.role = Role::assistant;
  call.tool_calls = {{"c1", "ping", "{}"}};
  prompt::Message result = message(Role::tool, "pong");
  result.tool_call_id = "c1";
  for (const DefaultTemplate& row : default_templates()) {
    auto chat = make_default(row.control_token);
    EXPECT_THAT(text(*chat, ask({message(Role::user, "go"), call, result})),
                HasSubstr("Tool result for ping (c1):\npong"))
        << row.name;
  }
}

}  // namespace
}  // namespace gezel::chat
