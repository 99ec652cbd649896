// The system text, tools included, ends where the header of the first other message begins: that is the last
// control token in front of its text. Templates that write the system text into the first user's turn have
// none there; then it ends behind the system message's own text.
#include "worker/prompt_spans.h"

#include <algorithm>
#include <optional>
#include <string>

#include "prompt/normalise.h"

namespace gezel::worker {
namespace {

using kvcache::SpanKind;
using prompt::Role;

// A piece may stand for other bytes than the text has: a beginning-of-text that the tokenizer added, a blank
// that it put in front of the first word.
std::vector<std::uint64_t> ends_of(const llama::Vocab& vocab, std::string_view text,
                                   std::span<const llama::Token> tokens) {
  std::vector<std::uint64_t> ends;
  ends.reserve(tokens.size());
  std::size_t at = 0;
  for (const llama::Token token : tokens) {
    std::string_view piece = vocab.piece(token, true);
    const std::string_view rest = text.substr(at);
    if (!rest.starts_with(piece)) {
      if (vocab.is_control(token)) {
        piece = {};
      } else if (piece.starts_with(' ') && rest.starts_with(piece.substr(1))) {
        piece.remove_prefix(1);
      }
    }
    at = std::min(text.size(), at + piece.size());
    ends.push_back(at);
  }
  return ends;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

bool is_system(Role role) {
  return role == Role::system || role == Role::developer;
}

}  // namespace

PromptSpans find_spans(const llama::Vocab& vocab, std::string_view text, std::span<const llama::Token> tokens,
                       std::span<const prompt::Message> messages) {
  PromptSpans out;
  out.token_ends = ends_of(vocab, text, tokens);
  std::size_t from = 0;
  std::optional<std::size_t> system_end, first_other;
  int system_message = 0;
  struct Found {
    kvcache::TextSpan span;
    int message;
  };
  std::vector<Found> found;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const prompt::Message& message = messages[i];
    if (message.role == Role::assistant) continue;
    const std::string whole = prompt::text_of(message);
    const std::string_view content = trimmed(whole);
    if (content.empty()) continue;
    const std::size_t at = text.find(content, from);
    if (at == std::string_view::npos) continue;
    from = at + content.size();
    if (is_system(message.role)) {
      if (first_other) continue;  // notes in between are part of the conversation
      system_end = from;
      system_message = static_cast<int>(i);
      continue;
    }
    if (!first_other) first_other = at;
    found.push_back({{message.role == Role::tool ? SpanKind::tool_result : SpanKind::user, at, from},
                     static_cast<int>(i)});
  }
  if (first_other) {
    const auto first =
        std::upper_bound(out.token_ends.begin(), out.token_ends.end(), *first_other) - out.token_ends.begin();
    std::size_t header = 0;
    for (auto i = first - 1; i > 0 && header == 0; --i) {
      if (vocab.is_control(tokens[static_cast<std::size_t>(i)]))
        header = out.token_ends[static_cast<std::size_t>(i - 1)];
    }
    const std::size_t end = std::max(header, system_end.value_or(0));
    if (end > 0) {
      out.spans.push_back({SpanKind::system, 0, end});
      out.messages.push_back(system_message);
    }
  } else if (system_end) {
    out.spans.push_back({SpanKind::system, 0, *system_end});
    out.messages.push_back(system_message);
  }
  for (const Found& one : found) {
    out.spans.push_back(one.span);
    out.messages.push_back(one.message);
  }
  return out;
}

}  // namespace gezel::worker
