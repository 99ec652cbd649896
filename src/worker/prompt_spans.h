// worker/prompt_spans.h
//
// Where the messages of a request stand in the text that its chat template made of them, and which tokens
// that is: the prefix cache cuts prompts there (kvcache/boundaries.h). Found by looking for the messages'
// texts in order, which costs nothing beside rendering; a message that the template has changed is not found
// and left out. A wrong place costs a little sharing, never an answer.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "kvcache/boundaries.h"
#include "llama/llama.h"
#include "prompt/request.h"

namespace gezel::worker {

struct PromptSpans {
  std::vector<std::uint64_t> token_ends;  // bytes of the text that tokens 0..i make
  std::vector<kvcache::TextSpan> spans;   // ascending
  std::vector<int> messages;              // of each span, its message's number in the request
};

PromptSpans find_spans(const llama::Vocab& vocab, std::string_view text, std::span<const llama::Token> tokens,
                       std::span<const prompt::Message> messages);

}  // namespace gezel::worker
