#include "turn/usage.h"

#include <algorithm>

#include <fmt/format.h>

namespace gezel::turn {
namespace {

bool begins_char(char c) {
  return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
}

// Bytes of the first `chars` characters.
std::size_t prefix_bytes(std::string_view text, std::int64_t chars) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (begins_char(text[i]) && chars-- <= 0) return i;
  }
  return text.size();
}

std::string_view first_chars(std::string_view text, std::int64_t chars) {
  return text.substr(0, prefix_bytes(text, chars));
}

std::string_view last_chars(std::string_view text, std::int64_t chars) {
  if (chars <= 0) return {};
  for (std::size_t i = text.size(); i > 0; --i) {
    if (begins_char(text[i - 1]) && --chars == 0) return text.substr(i - 1);
  }
  return text;
}

constexpr std::int64_t kRangeBelowChars = 8000;

}  // namespace

std::int64_t count_chars(std::string_view utf8) {
  return std::ranges::count_if(utf8, begins_char);
}

std::int64_t estimate_tokens(const PromptSize& size) {
  const std::int64_t chars = size.chars + size.images * kImageChars;
  return (chars + kCharsPerToken - 1) / kCharsPerToken;
}

Result<std::int64_t> output_limit(const OutputLimitRequest& request) {
  const auto explicit_tokens =
      request.max_completion_tokens ? request.max_completion_tokens : request.max_tokens;
  const std::int64_t wanted = explicit_tokens.value_or(
      std::max(request.profile_tokens.value_or(kDefaultOutputTokens), request.floor_tokens));
  const std::int64_t needed = std::min(kMinOutputTokens, explicit_tokens.value_or(kMinOutputTokens));
  const std::int64_t available = request.context_tokens - request.prompt_tokens;
  if (available < needed) {
    return fail(
        ErrorKind::invalid, "context_length_exceeded",
        fmt::format("the prompt has {} tokens and the answer needs at least {}, but the context holds {}: "
                    "shorten the messages or tools, or use a model with a longer context",
                    request.prompt_tokens, needed, request.context_tokens),
        "messages");
  }
  return std::min(wanted, available);
}

// The factors of section 11.3 as fractions, so that floors and ceilings are exact: 3.2 = 16/5, 2.8 = 14/5.
ResultCap result_cap(std::int64_t context_tokens, std::int64_t prompt_chars) {
  ResultCap cap;
  cap.usable_tokens = context_tokens * 3 / 4;
  cap.transcript_tokens = (prompt_chars * 5 + 15) / 16;
  cap.remaining_tokens = std::max<std::int64_t>(0, cap.usable_tokens - cap.transcript_tokens - 512);
  const std::int64_t budget = cap.remaining_tokens * 14 / 5;
  const std::int64_t ceiling = std::min<std::int64_t>(80000, context_tokens * 3);
  cap.cap_chars = std::max<std::int64_t>(500, std::min(budget, ceiling));
  return cap;
}

std::int64_t failed_command_tail(std::int64_t cap_chars) {
  return std::min<std::int64_t>(cap_chars * 9 / 20, 6000);
}

bool failed_command(std::string_view text) {
  constexpr std::string_view kMark = "\xE2\x9C\x97 ", kFailed = " failed (";
  const std::string_view head = first_chars(text, 200);
  for (std::size_t at = head.find(kMark); at != std::string_view::npos; at = head.find(kMark, at + 1)) {
    const std::string_view rest = head.substr(at + kMark.size());
    const std::size_t failed = rest.find(kFailed);
    if (failed == std::string_view::npos || failed == 0) continue;
    if (rest.substr(0, failed).contains('\n')) continue;
    const std::string_view cause = rest.substr(failed + kFailed.size());
    if (cause.starts_with("exit") || cause.starts_with("timed out")) return true;
  }
  return false;
}

std::string cap_result(std::string_view text, std::int64_t cap_chars) {
  const std::int64_t chars = count_chars(text);
  if (chars <= cap_chars) return std::string(text);
  const bool failed = failed_command(text);
  const std::string note = fmt::format(
      "\n[cut: the result has {} characters, {} of them fit here. To see the rest, ask for less at "
      "once: a narrower query{}.]",
      chars, cap_chars, cap_chars < kRangeBelowChars ? " or a range" : "");
  constexpr std::string_view kGap = "\n[...]\n";
  const std::int64_t room = cap_chars - count_chars(note);
  if (room <= 0) return std::string(first_chars(text, cap_chars));
  const std::int64_t tail = failed_command_tail(cap_chars);
  const std::int64_t head = room - tail - count_chars(kGap);
  if (!failed || head <= 0) return std::string(first_chars(text, room)) + note;
  return std::string(first_chars(text, head)).append(kGap).append(last_chars(text, tail)).append(note);
}

std::string_view to_string(FinishReason reason) {
  switch (reason) {
    case FinishReason::stop:
      return "stop";
    case FinishReason::length:
      return "length";
    case FinishReason::tool_calls:
      return "tool_calls";
    case FinishReason::content_filter:
      return "content_filter";
  }
  return "stop";
}

FinishReason finish_reason(const FinishFacts& facts) {
  if (facts.call_cut_short) return FinishReason::length;
  if (facts.calls) return FinishReason::tool_calls;
  if (facts.engine) {
    // A client that is told of calls looks for them.
    return *facts.engine == FinishReason::tool_calls ? FinishReason::stop : *facts.engine;
  }
  if (facts.output_limit > 0 && facts.output_tokens >= facts.output_limit) return FinishReason::length;
  return facts.content_filter ? FinishReason::content_filter : FinishReason::stop;
}

void Usage::add(const Usage& iteration) {
  prompt_tokens = iteration.prompt_tokens;
  cached_tokens = iteration.cached_tokens;
  completion_tokens += iteration.completion_tokens;
  reasoning_tokens += iteration.reasoning_tokens;
  iterations += iteration.iterations;
  estimated |= iteration.estimated;
}

}  // namespace gezel::turn
