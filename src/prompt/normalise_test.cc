#include "prompt/normalise.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace gezel::prompt {
namespace {

using testing::ElementsAre;

ContentPart text_part(std::string text) {
  return {ContentPart::Kind::text, std::move(text)};
}
ContentPart image_part() {
  return {ContentPart::Kind::image, "data:image/png;base64,AA=="};
}

Message message(Role role, std::string text) {
  Message out;
  out.role = role;
  out.content = {text_part(std::move(text))};
  return out;
}

Message calls(std::vector<ToolCall> tool_calls) {
  Message out;
  out.role = Role::assistant;
  out.tool_calls = std::move(tool_calls);
  return out;
}

Message result(std::string id, std::string text) {
  Message out = message(Role::tool, std::move(text));
  out.tool_call_id = std::move(id);
  return out;
}

// "role: text" of each message, calls as "[name id]".
std::vector<std::string> outline(const std::vector<Message>& messages) {
  std::vector<std::string> lines;
  for (const Message& m : messages) {
    static constexpr const char* kNames[] = {"system", "developer", "user", "assistant", "tool"};
    std::string line = std::string(kNames[static_cast<int>(m.role)]) + ": " + text_of(m);
    for (const ToolCall& call : m.tool_calls) line += "[" + call.name + " " + call.id + "]";
    lines.push_back(std::move(line));
  }
  return lines;
}

std::vector<std::string> normalised(std::vector<Message> messages, const TemplateTraits& traits = {}) {
  auto out = normalise(std::move(messages), traits);
  EXPECT_TRUE(out) << out.error().message;
  return outline(*out);
}

TEST(Normalise, DeveloperBecomesSystemUnlessTheTemplateKnowsIt) {
  const std::vector<Message> messages = {message(Role::developer, "Be brief."), message(Role::user, "Hi")};
  EXPECT_THAT(normalised(messages), ElementsAre("system: Be brief.", "user: Hi"));
  EXPECT_THAT(normalised(messages, {.developer_role = true}),
              ElementsAre("developer: Be brief.", "user: Hi"));
}

TEST(Normalise, AnAssistantWithCallsHasEmptyContentAndOneWithNothingIsDropped) {
  auto out = normalise(
      {message(Role::user, "Hi"), Message{.role = Role::assistant}, calls({{"c1", "ping", "{}"}})}, {});
  ASSERT_TRUE(out);
  ASSERT_EQ(out->size(), 2U);
  ASSERT_EQ(out->back().content.size(), 1U);
  EXPECT_EQ(out->back().content.front().text, "");
}

TEST(Normalise, TextPartsAreJoinedByALineEnd) {
  Message user;
  user.content = {text_part("a"), text_part("b")};
  EXPECT_THAT(normalised({user}), ElementsAre("user: a\nb"));
}

TEST(Normalise, ImagesStayTypedOnlyWithVision) {
  Message user;
  user.content = {text_part("What?"), image_part()};
  EXPECT_EQ(normalise({user}, {.vision = true})->front().content.size(), 2U);
  const auto blind = normalise({user}, {});
  ASSERT_EQ(blind->front().content.size(), 1U);
  EXPECT_EQ(blind->front().content.front().text, "What?");
}

TEST(Normalise, AMessageOfImagesAloneIsRefusedWithoutVision) {
  Message user;
  user.content = {image_part()};
  const auto out = normalise({message(Role::user, "Hi"), user}, {});
  ASSERT_FALSE(out);
  EXPECT_EQ(out.error().code, "unsupported_content");
  EXPECT_EQ(out.error().param, "messages[1].content");
}

TEST(Normalise, SystemTextGoesIntoTheFirstUserMessageWhereThereIsNoSystemRole) {
  const TemplateTraits traits{.system_role = false};
  EXPECT_THAT(
      normalised({message(Role::system, "S"), message(Role::user, "U"), message(Role::developer, "D")},
                 traits),
      ElementsAre("user: S\n\nD\n\nU"));
  EXPECT_THAT(normalised({message(Role::system, "S"), message(Role::assistant, "A")}, traits),
              ElementsAre("user: S", "assistant: A"));
}

TEST(Normalise, AToolResultIsLinkedToItsCallAndTakesItsName) {
  auto out = normalise(
      {calls({{"c1", "ping", "{}"}, {"c2", "pong", "{}"}}), result("c2", "b"), result("", "a")}, {});
  ASSERT_TRUE(out);
  EXPECT_EQ(out->at(1).name, "pong");
  EXPECT_EQ(out->at(2).name, "ping");
  EXPECT_EQ(out->at(2).tool_call_id, "c1");
}

TEST(Normalise, AnOrphanedToolResultBecomesUserText) {
  EXPECT_THAT(normalised({message(Role::user, "Hi"), result("c9", "ok")}),
              ElementsAre("user: Hi", "user: Tool result for a tool (c9):\nok"));
  // An answer lies between the call and the result: the nearest assistant message made no such call.
  EXPECT_THAT(
      normalised({calls({{"c1", "ping", "{}"}}), message(Role::assistant, "A"), result("c1", "late")}),
      ElementsAre("assistant: [ping c1]", "assistant: A", "user: Tool result for a tool (c1):\nlate"));
}

TEST(Normalise, AnEmptyToolResultSaysSo) {
  EXPECT_THAT(normalised({calls({{"c1", "ping", "{}"}}), result("c1", "")}),
              ElementsAre("assistant: [ping c1]", "tool: (empty)"));
}

TEST(Normalise, ToolTrafficBecomesTextWhereResultsWouldBeLost) {
  EXPECT_THAT(normalised({message(Role::user, "Hi"), calls({{"c1", "ping", "{}"}}), result("c1", "ok")},
                         {.tool_results = false}),
              ElementsAre("user: Hi", "assistant: Called the tool ping (c1).",
                          "user: Tool result for ping (c1):\nok"));
}

TEST(Normalise, CallsAreToldWhereTheyAloneWouldBeLost) {
  EXPECT_THAT(normalised({message(Role::user, "Hi"), calls({{"c1", "ping", "{}"}}), result("c1", "ok")},
                         {.calls = false}),
              ElementsAre("user: Hi", "assistant: Called the tool ping (c1).", "tool: ok"));
}

TEST(Normalise, ResultsAreSortedByTheirCallsWhereAsked) {
  EXPECT_THAT(
      normalised({calls({{"c1", "a", "{}"}, {"c2", "b", "{}"}}), result("c2", "2"), result("c1", "1")},
                 {.sort_tool_results = true}),
      ElementsAre("assistant: [a c1][b c2]", "tool: 1", "tool: 2"));
}

TEST(Normalise, ShortCallIdsAreStableAndKeepTheirLinks) {
  EXPECT_EQ(short_call_id("abcDEF123"), "abcDEF123");
  const std::string id = short_call_id("call_0123456789");
  EXPECT_EQ(id.size(), 9U);
  EXPECT_TRUE(std::ranges::all_of(id, [](unsigned char c) { return std::isalnum(c); }));
  EXPECT_EQ(id, short_call_id("call_0123456789"));
  EXPECT_NE(id, short_call_id("call_0123456788"));
  auto out = normalise({calls({{"call_1", "a", "{}"}}), result("call_1", "x")}, {.short_call_ids = true});
  EXPECT_EQ(out->at(0).tool_calls[0].id, out->at(1).tool_call_id);
}

TEST(Normalise, ReasoningIsKeptOnlyWhereTheTemplateAsksForIt) {
  Message answer = message(Role::assistant, "A");
  answer.reasoning = "hm";
  EXPECT_EQ(normalise({answer}, {})->front().reasoning, "");
  EXPECT_EQ(normalise({answer}, {.reasoning = ReasoningReplay::reasoning_content})->front().reasoning, "hm");
}

TEST(Normalise, HarmonyDropsTheContentOfMessagesWithCalls) {
  Message call = calls({{"c1", "a", "{}"}});
  call.content = {text_part("preamble")};
  EXPECT_THAT(normalised({call}, {.drop_content_of_calls = true}), ElementsAre("assistant: [a c1]"));
}

TEST(Normalise, ContentIsTrimmedWhereAsked) {
  EXPECT_THAT(
      normalised({message(Role::user, " \n a \t"), message(Role::assistant, " ")}, {.trim_content = true}),
      ElementsAre("user: a", "assistant: "));
}

TEST(FlattenToolTranscript, B11MakesThreeMessagesOfACallAndItsResult) {
  auto out = normalise({message(Role::user, "go"), calls({{"c1", "ping", "{}"}}), result("c1", "ok"),
                        message(Role::user, "next")},
                       {});
  flatten_tool_transcript(*out);
  EXPECT_THAT(outline(*out), ElementsAre("user: go", "assistant: Called the tool ping (c1).",
                                         "user: Tool result for ping (c1):\nok\n\nnext"));
}

TEST(FlattenToolTranscript, NamesEveryCallAfterTheContentAndKeepsSystemMessagesApart) {
  Message call = calls({{"c1", "a", "{}"}, {"c2", "b", "{}"}});
  call.content = {text_part("Let me look.")};
  std::vector<Message> messages = {message(Role::system, "S1"), message(Role::system, "S2"), std::move(call)};
  flatten_tool_transcript(messages);
  EXPECT_THAT(outline(messages),
              ElementsAre("system: S1", "system: S2",
                          "assistant: Let me look.\n\nCalled the tool a (c1).\n\nCalled the tool b (c2)."));
}

TEST(MergeSystemMessages, B12JoinsThemAtTheFrontAndKeepsTheOrderOfTheRest) {
  std::vector<Message> messages = {message(Role::system, "S1"), message(Role::user, "U"),
                                   message(Role::assistant, "A"), message(Role::system, "S2"),
                                   message(Role::user, "V")};
  merge_system_messages(messages);
  EXPECT_THAT(outline(messages), ElementsAre("system: S1\n\nS2", "user: U", "assistant: A", "user: V"));
}

}  // namespace
}  // namespace gezel::prompt
