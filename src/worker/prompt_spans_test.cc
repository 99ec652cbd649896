#include "worker/prompt_spans.h"

#include <gtest/gtest.h>

#include "llama/test_support.h"

namespace gezel::worker {
namespace {

using kvcache::SpanKind;
using prompt::Role;

prompt::Message message(Role role, std::string text) {
  prompt::Message out;
  out.role = role;
  out.content = {{prompt::ContentPart::Kind::text, std::move(text)}};
  return out;
}

struct Found {
  std::string text;
  PromptSpans spans;
  std::string of(std::size_t i) const {
    return text.substr(spans.spans[i].begin, spans.spans[i].end - spans.spans[i].begin);
  }
};

Found find(const std::string& text, const std::vector<prompt::Message>& messages) {
  const llama::Vocab& vocab = llama::testing::smollm().vocab();
  return {text, find_spans(vocab, text, vocab.tokenize(text, true, true), messages)};
}

TEST(PromptSpans, TheSystemTextEndsBeforeTheNextHeader) {
  const auto found = find(
      "<|im_start|>system\nBe brief. # Tools\n{\"add\"}<|im_end|>\n<|im_start|>user\nHi there<|im_end|>\n"
      "<|im_start|>assistant\nHello<|im_end|>\n<|im_start|>user\n<tool_response>42</"
      "tool_response><|im_end|>\n"
      "<|im_start|>user\nHi there<|im_end|>\n<|im_start|>assistant\n",
      {message(Role::system, "Be brief."), message(Role::user, "Hi there"), message(Role::assistant, "Hello"),
       message(Role::tool, "42"), message(Role::user, " Hi there\n")});
  ASSERT_EQ(found.spans.spans.size(), 4u);
  EXPECT_EQ(found.of(0), "<|im_start|>system\nBe brief. # Tools\n{\"add\"}<|im_end|>\n");
  EXPECT_EQ(found.of(1), "Hi there");
  EXPECT_EQ(found.of(2), "42");
  EXPECT_EQ(found.spans.spans[2].kind, SpanKind::tool_result);
  EXPECT_EQ(found.of(3), "Hi there");
  EXPECT_GT(found.spans.spans[3].begin, found.spans.spans[2].end);
  EXPECT_EQ(found.spans.messages, (std::vector<int>{0, 1, 3, 4}));
  EXPECT_EQ(found.spans.token_ends.back(), found.text.size());
}

TEST(PromptSpans, ASystemTextInTheFirstTurnEndsWithItself) {
  const auto found = find("<|im_start|>user\nBe brief.\n\nHi<|im_end|>\n<|im_start|>assistant\n",
                          {message(Role::system, "Be brief."), message(Role::user, "Hi")});
  ASSERT_EQ(found.spans.spans.size(), 2u);
  EXPECT_EQ(found.of(0), "<|im_start|>user\nBe brief.");
  EXPECT_EQ(found.of(1), "Hi");
}

TEST(PromptSpans, WhatTheTemplateChangedIsLeftOut) {
  const auto found = find("<|im_start|>user\nHI<|im_end|>\n<|im_start|>user\nAgain<|im_end|>\n",
                          {message(Role::user, "hi"), message(Role::user, "Again"), message(Role::user, "")});
  ASSERT_EQ(found.spans.messages.back(), 1);
  EXPECT_EQ(found.of(found.spans.spans.size() - 1), "Again");
}

TEST(PromptSpans, NoMessageGivesNoSpan) {
  EXPECT_TRUE(find("plain text", {}).spans.spans.empty());
}

}  // namespace
}  // namespace gezel::worker
