// The end of a message. What the text said is corrected where only the whole of it can tell (spec 50 sections
// 3.1, 3.3.5, 3.3.6, 3.3.8 and 4.4.5), and the stream is completed or replaced.
#include <algorithm>
#include <array>
#include <iterator>

#include "turn/parser_impl.h"
#include "turn/weak_scan.h"

namespace gezel::turn {

Parser::Finished Parser::Impl::finish(FinishReason reason) {
  cut = reason == FinishReason::length;
  if (const std::string tail = utf8.finish(); !tail.empty()) in.append(tail);
  in.end();
  reader.rethrow();
  content_writer.finish(content);

  Message message;
  message.content = content;
  message.reasoning = reasoning;
  return_open_block(message);
  move_unknown_start(message);
  Events before = std::exchange(events, {});
  if (!rescue(message)) {
    scan_weak(message, cut ? TextEnd::cut : TextEnd::stopped);
    take_calls(message);
  }
  capture_prose(message);
  Events calls = std::exchange(events, std::move(before));
  stream_rest(message);
  // A replacement is the last word on the text.
  auto replace = events.end();
  if (!events.empty() && std::holds_alternative<Replace>(events.back())) --replace;
  events.insert(replace, std::make_move_iterator(calls.begin()), std::make_move_iterator(calls.end()));
  return {std::exchange(events, {}), std::move(message)};
}

// A block in the middle of the content that nothing closed was no reasoning.
void Parser::Impl::return_open_block(Message& message) const {
  if (!block || !block->in_middle || !splitter.inside()) return;
  ContentWriter writer = block->content;
  writer.text(block->text, message.content);
  writer.finish(message.content);
  message.reasoning.resize(block->reasoning_size);
}

// Start unknown, and a closer came that no block had: what stood before it was reasoning.
void Parser::Impl::move_unknown_start(Message& message) const {
  if (!unknown_end) return;
  std::string before(trimmed(std::string_view(message.content).substr(0, *unknown_end)));
  message.content.erase(0, *unknown_end);
  const auto begin = std::ranges::find_if_not(message.content, is_space);
  message.content.erase(message.content.begin(), begin);
  if (before.empty()) return;
  if (!message.reasoning.empty()) before += "\n\n";
  message.reasoning.insert(0, before);
}

// Nothing was said but calls inside reasoning, which does not end at them: they are meant.
bool Parser::Impl::rescue(Message& message) {
  if (!calls_on() || options.tool_open_ends_reasoning || options.family == Family::harmony) return false;
  if (book.any() || !trimmed(message.content).empty() || message.reasoning.empty()) return false;
  ParserOptions again = options;
  again.start = StartState::closed;
  again.split_reasoning = false;
  again.scrub_framing = false;
  again.salvage = SalvageLevel::strong;
  again.grammar.clear();
  again.capture_pre_tool_prose = false;
  Parser parser(std::move(again));
  Events found = parser.feed(message.reasoning);
  Finished finished = parser.finish(cut ? FinishReason::length : FinishReason::stop);
  if (finished.message.calls.empty()) return false;
  std::ranges::move(finished.events, std::back_inserter(found));
  for (Event& event : found) {
    const bool text = std::holds_alternative<ReasoningDelta>(event) ||
                      std::holds_alternative<ContentDelta>(event) || std::holds_alternative<Replace>(event);
    if (!text) events.push_back(std::move(event));
  }
  Message rescued = std::move(finished.message);
  rescued.reasoning = std::string(trimmed(rescued.content));
  rescued.content = std::move(message.content);
  rescued.rescued = true;
  rescued.repairs.emplace_back("calls were taken from the reasoning: nothing else was answered");
  message = std::move(rescued);
  return true;
}

void Parser::Impl::scan_weak(Message& message, TextEnd end) {
  if (!calls_on() || options.salvage != SalvageLevel::all || book.any()) return;
  WeakScan found = turn::scan_weak(message.content, options.tools, book.names(), end);
  book.flags.envelope_truncated = found.envelope_truncated;
  for (WeakCall& call : found.calls) {
    book.open(call.source, call.name, call.id, false);
    const std::string_view raw =
        std::string_view(message.content).substr(call.span.begin, call.span.end - call.span.begin);
    book.close(
        {.arguments = std::move(call.arguments), .repair = call.repair, .span = call.span, .raw = raw});
  }
  if (!found.removed.empty()) {
    message.content = without_spans(message.content, found.removed, options.split_reasoning);
  }
}

void Parser::Impl::take_calls(Message& message) {
  message.calls = std::move(book.calls);
  message.indexes = std::move(book.indexes);
  message.unknown = std::move(book.unknown_names);
  message.truncated = std::move(book.truncated_names);
  message.cut = std::move(book.cut);
  message.malformed = book.malformed_count;
  message.unparsed = std::move(book.unparsed);
  message.abandoned = std::move(book.abandoned);
  message.flags = book.flags;
  message.repairs = std::move(book.repairs);
  if (unknown_end)
    message.repairs.emplace_back("text before a closing reasoning marker was moved to the reasoning");
}

// Paragraphs that plan the call belong to the reasoning, for models whose behaviour says so.
void Parser::Impl::capture_prose(Message& message) const {
  if (!options.capture_pre_tool_prose || message.calls.empty()) return;
  constexpr auto kBeginnings =
      std::to_array<std::string_view>({"thought", "plan:", "wait", "let me think", "first,", "i need to"});
  const auto plans = [&](std::string_view paragraph) {
    std::string head(paragraph.substr(0, 32));
    std::ranges::transform(head, head.begin(),
                           [](char c) { return c >= 'A' && c <= 'Z' ? char(c + 32) : c; });
    const std::string_view text = head;
    if (std::ranges::any_of(kBeginnings, [&](std::string_view word) { return text.starts_with(word); })) {
      return true;
    }
    if (!text.starts_with("step ")) return false;
    const std::size_t number = text.find_first_not_of("0123456789", 5);
    return number != text.npos && number > 5 && text[number] == ':';
  };
  std::string_view rest = message.content;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find("\n\n"), rest.size());
    const std::string_view paragraph = trimmed(rest.substr(0, end));
    if (!plans(paragraph)) break;
    if (!message.reasoning.empty()) message.reasoning += "\n\n";
    message.reasoning += paragraph;
    rest.remove_prefix(end);
    while (!rest.empty() && is_space(rest.front())) rest.remove_prefix(1);
  }
  message.content = std::string(rest);
}

void Parser::Impl::stream_rest(const Message& message) {
  const std::string_view content_told = std::string_view(content).substr(0, content_sent);
  const bool content_grows = message.content.starts_with(content_told);
  const bool reasoning_grows = message.reasoning.starts_with(reasoning);
  if (content_grows && reasoning_grows) {
    add_reasoning(events, std::string_view(message.reasoning).substr(reasoning.size()));
  }
  if (content_grows) add_content(events, std::string_view(message.content).substr(content_sent));
  if (!content_grows || !reasoning_grows) events.push_back(Replace{message.reasoning, message.content});
}

}  // namespace gezel::turn
