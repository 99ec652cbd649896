#include "worker/reasoning_start.h"

#include <gtest/gtest.h>

namespace gezel::worker {
namespace {

const prompt::WritingStyle kPonders{.reasoning_open = "<ponder>", .reasoning_close = "</ponder>"};

prompt::GenerateRequest with(std::string kwargs, std::string effort = {}) {
  prompt::GenerateRequest request;
  request.template_kwargs = std::move(kwargs);
  request.reasoning_effort = std::move(effort);
  return request;
}

TEST(ReasoningStart, AModelThatDoesNotReasonDoesNotThink) {
  EXPECT_FALSE(reasoning_start({}, "hi", false, {}, false).thinks);
}

TEST(ReasoningStart, AModelThatReasonsThinksUnlessItIsToldNotTo) {
  EXPECT_TRUE(reasoning_start({}, "<|im_start|>assistant\n", false, {}, true).thinks);
  EXPECT_TRUE(reasoning_start(with(R"({"enable_thinking":true})"), "x", false, {}, true).thinks);
  EXPECT_FALSE(reasoning_start(with(R"({"enable_thinking":false})"), "x", false, {}, true).thinks);
  EXPECT_FALSE(reasoning_start(with("", "none"), "x", false, {}, true).thinks);
}

TEST(ReasoningStart, ATagOfTheLastMessageDecidesWhereTheRequestSaysNothing) {
  const prompt::PromptTags tags{"/think", "/no_think"};
  auto request = with("");
  request.messages = {
      {.role = prompt::Role::user, .content = {{prompt::ContentPart::Kind::text, "Hi /no_think"}}}};
  EXPECT_FALSE(reasoning_start(request, "x", false, {}, true, tags).thinks);
  EXPECT_TRUE(reasoning_start(request, "x", false, {}, true).thinks) << "a word like any other";
  request.reasoning_effort = "high";
  EXPECT_TRUE(reasoning_start(request, "x", false, {}, true, tags).thinks);
}

TEST(ReasoningStart, ABlockThatThePromptClosedIsNoThinking) {
  EXPECT_FALSE(reasoning_start({}, "<think>\n\n</think>\n\n", false, {}, true).thinks);
  EXPECT_FALSE(reasoning_start({}, "<ponder></ponder>\n", false, kPonders, true).thinks);
  // An earlier one says nothing.
  EXPECT_TRUE(reasoning_start({}, "</think> hi <|im_start|>assistant\n", false, {}, true).thinks);
  // Another family's closer is text.
  EXPECT_TRUE(reasoning_start({}, "<|start|>user<|end|>", false, {}, true).thinks);
}

TEST(ReasoningStart, APromptThatEndsInsideABlockIsThinkingWhateverWasAsked) {
  EXPECT_TRUE(reasoning_start(with("", "none"), "x", true, {}, false).thinks);
  const auto own = reasoning_start({}, "</ponder>..<ponder>\n", false, kPonders, true);
  EXPECT_TRUE(own.open);
  EXPECT_TRUE(own.thinks);
  EXPECT_FALSE(reasoning_start({}, "<ponder>a</ponder> b", false, kPonders, true).open);
  // What somebody writes about a marker opens nothing.
  EXPECT_FALSE(reasoning_start({}, "user: what is <ponder>?\nassistant:", false, kPonders, true).open);
}

}  // namespace
}  // namespace gezel::worker
