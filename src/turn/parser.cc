// The reader is a coroutine over the text. It asks the splitter for the next step, hands text to the
// channels, and reads a call with the grammar of its dialect; inside a call nothing else is looked for.
#include "turn/parser.h"

#include <array>
#include <utility>

#include "turn/parser_impl.h"
#include "turn/reasoning_markers.h"
#include "turn/tolerant_json.h"

namespace gezel::turn {
namespace {

SplitterOptions splitter_options(const ParserOptions& options, const ToolNames& names, bool calls) {
  return {.split_reasoning = options.split_reasoning,
          .family = options.family,
          .profile_row = options.profile_markers,
          .private_markers = options.private_markers,
          .scrub_framing = options.scrub_framing,
          .calls = calls,
          .tool_open_ends_reasoning = options.tool_open_ends_reasoning,
          .tools = &names,
          .private_dialect = options.derived ? &options.derived->row : nullptr,
          .special_markers = options.special_markers};
}

// A span that fits no grammar ends behind the nearest closer of its dialect, else at the end of the text.
auto skip_behind_closer(Input& input, std::span<const std::string_view> closers) {
  return input.when([closers](Input& in) -> std::optional<bool> {
    const std::string_view text = in.view();
    std::size_t longest = 1, nearest = text.npos, end = 0;
    for (const std::string_view closer : closers) {
      longest = std::max(longest, closer.size());
      if (const std::size_t found = text.find(closer); found < nearest) {
        nearest = found;
        end = found + closer.size();
      }
    }
    if (nearest != text.npos) {
      in.skip(end);
      return true;
    }
    const std::size_t keep = in.ended() ? 0 : longest - 1;
    if (text.size() > keep) in.skip(text.size() - keep);
    return in.ended() ? std::optional<bool>(false) : std::nullopt;
  });
}

// Closers of single calls inside a section.
constexpr auto kInnerClosers =
    std::to_array<std::string_view>({"<|tool_call_end|>", "<｜tool▁call▁end｜>", "<｜tool_call_end｜>",
                                     "<｜tool call end｜>", "<｜tool\\_call\\_end｜>", "<|tool_call:end|>"});

// A closer that the end of the text cuts behind a call is part of the call.
auto drop_cut_closer(Input& input, const Dialect& row) {
  return input.when([&row, space = std::size_t{0}](Input& in) mutable -> std::optional<bool> {
    const std::string_view text = in.view();
    while (space < text.size() && is_space(text[space])) ++space;
    const std::string_view rest = text.substr(space);
    if (space > kMaxSpace) return false;
    if (rest.empty()) return in.ended() ? std::optional<bool>(false) : std::nullopt;
    const auto cut = [&](std::span<const std::string_view> closers) {
      return std::ranges::any_of(closers, [&](std::string_view closer) {
        return rest.size() < closer.size() && closer.starts_with(rest);
      });
    };
    if (!cut(row.closers) && !cut(lone_call_closers()) && !cut(kInnerClosers)) return false;
    if (!in.ended()) return std::nullopt;
    in.skip(text.size());
    return true;
  });
}

}  // namespace

Parser::Impl::Impl(ParserOptions given)
    : options(std::move(given)),
      book({.tools = options.tools,
            .parallel = options.parallel_calls,
            .grammar = options.grammar,
            .ids = options.ids},
           events),
      splitter(splitter_options(options, book.names(), calls_on()), options.start == StartState::open),
      content_writer(options.split_reasoning),
      hold(calls_on() && options.salvage == SalvageLevel::all, book.names()) {
  reader = read();
  reader.start();
}

Task<> Parser::Impl::read() {
  if (options.family == Family::harmony) co_return co_await read_harmony();
  if (options.family == Family::functionary) co_await read_first_recipient();
  co_await read_split();
}

Task<> Parser::Impl::read_split() {
  using Kind = Splitter::Kind;
  for (;;) {
    const bool inside = splitter.inside();
    const Splitter::Step step = splitter.next(in.view(), in.ended(), in.offset(), &in);
    const std::string_view text = in.view().substr(0, step.size);
    switch (step.kind) {
      case Kind::wait:
        if (in.ended()) co_return;
        co_await in.more();
        continue;
      case Kind::text:
        inside ? write_reasoning(text) : write_content(text);
        break;
      case Kind::open:
        begin_block(text);
        break;
      case Kind::close:
        end_block();
        break;
      case Kind::reopen:
        break;
      case Kind::stray_close:
        stray_close();
        break;
      case Kind::framing:
        if (!inside) remove_span();
        break;
      case Kind::tool:
        if (inside) end_block();
        co_await read_call(*step.dialect, step.size);
        continue;
    }
    in.skip(step.size);
  }
}

// Functionary: the first `>>>` may stand in the prompt, so that the text begins with the recipient.
Task<> Parser::Impl::read_first_recipient() {
  enum class First { none, everyone, tool };
  const First first = co_await in.when([this](Input& input) -> std::optional<First> {
    const std::string_view text = input.view().substr(0, kMaxName + 1);
    const std::size_t size =
        static_cast<std::size_t>(std::ranges::find_if_not(text, is_name_char) - text.begin());
    if (size == text.size() && size <= kMaxName && !input.ended()) return std::nullopt;
    if (size == text.size() || text[size] != '\n' || !is_name_start(text.front())) return First::none;
    const std::string_view name = text.substr(0, size);
    if (name == "all") {
      input.skip(size + 1);
      return First::everyone;
    }
    return calls_on() && book.names().resolve(name) ? First::tool : First::none;
  });
  if (first == First::everyone) remove_span();
  if (first == First::tool) co_await read_call(dialect(family_form(4)), 0);
}

Task<> Parser::Impl::read_call(const Dialect& row, std::size_t opener_size) {
  remove_span();
  hold.release();
  stream_content();
  in_call = true;
  BodyContext c{
      .in = in, .book = book, .dialect = row, .derived = options.derived, .cut = cut, .begin = in.offset()};
  in.capture(&c.captured, kMaxUnparsedBytes);
  if (!row.opener_in_body) in.skip(opener_size);
  const BodyEnd end = co_await read_body(c);
  if (end == BodyEnd::malformed) {
    co_await skip_behind_closer(in, row.closers);
    if (!c.counted) book.malformed(c.captured);
  } else if (end == BodyEnd::truncated) {
    co_await skip_behind_closer(in, {});
    if (!c.counted) book.truncated(c.cut_name);
  }
  in.capture(nullptr);
  in_call = false;
  if (end == BodyEnd::complete) co_await drop_cut_closer(in, row);
}

Task<BodyEnd> read_body(BodyContext& c) {
  switch (c.dialect.body) {
    case Body::tagged:
      return tagged_body(c);
    case Body::function_tags:
      return function_tags_body(c);
    case Body::param_form:
      return param_form_body(c);
    case Body::invoke_xml:
      return invoke_xml_body(c);
    case Body::json_calls:
      return json_calls_body(c);
    case Body::named_json:
      return named_json_body(c);
    case Body::python_tag:
      return python_tag_body(c);
    case Body::python_calls:
      return python_calls_body(c);
    case Body::kimi_k3:
      return kimi_k3_body(c);
    case Body::minimax_m3:
      return minimax_m3_body(c);
    case Body::derived:
      return derived_body(c);
    case Body::none:
      break;
  }
  std::unreachable();
}

void Parser::Impl::begin_block(std::string_view opener) {
  any_block = true;
  block.emplace(content_writer.started(), std::string(), content_writer, reasoning.size());
  if (block->in_middle) block->text = opener;
  remove_span();
  reasoning_writer.begin_block();
}

void Parser::Impl::end_block() {
  any_block = true;
  block.reset();
  remove_span();
}

void Parser::Impl::write_reasoning(std::string_view text) {
  if (block && block->in_middle) block->text += text;
  const std::size_t before = reasoning.size();
  reasoning_writer.text(text, reasoning);
  add_reasoning(events, std::string_view(reasoning).substr(before));
}

void Parser::Impl::write_content(std::string_view text) {
  content_writer.text(text, content);
  stream_content();
}

void Parser::Impl::stream_content() {
  const std::size_t end = hold.streamable(content);
  if (end <= content_sent) return;
  add_content(events, std::string_view(content).substr(content_sent, end - content_sent));
  content_sent = end;
}

void Parser::Impl::remove_span() {
  content_writer.removed();
}

void Parser::Impl::stray_close() {
  if (options.start == StartState::unknown && !any_block && !book.any() && !unknown_end) {
    unknown_end = content.size();
  }
  remove_span();
}

Events Parser::Impl::push(std::string_view text, bool special) {
  in.append(text, special);
  reader.rethrow();
  return std::exchange(events, {});
}

Parser::Parser(ParserOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Parser::Parser(Parser&&) noexcept = default;
Parser& Parser::operator=(Parser&&) noexcept = default;
Parser::~Parser() = default;

Events Parser::feed(std::string_view text) {
  return impl_->push(impl_->utf8.feed(text), false);
}

Events Parser::feed_special(std::string_view token) {
  // A character that is still incomplete comes first, as U+FFFD.
  const std::string text = impl_->utf8.feed(token);
  const std::size_t broken = text.size() - std::min(text.size(), token.size());
  if (broken > 0) impl_->in.append(std::string_view(text).substr(0, broken));
  return impl_->push(std::string_view(text).substr(broken), true);
}

Events Parser::feed_reasoning(std::string_view text) {
  impl_->write_reasoning(text);
  return std::exchange(impl_->events, {});
}

Events Parser::feed_native_call(std::string_view id, std::string_view name, std::string_view arguments) {
  CallBook& book = impl_->book;
  impl_->hold.release();
  impl_->stream_content();
  book.open({}, name, id, false);
  JsonRead read = read_arguments(arguments);
  if (read.status == JsonStatus::complete && read.value.is_object()) {
    std::optional<std::string> own;
    if (read.strict()) own.emplace(trimmed(arguments));
    book.close({.arguments = std::move(read.value.get_object()),
                .text = std::move(own),
                .repair = read.level,
                .raw = arguments});
  } else {
    book.close_unread(arguments);
  }
  return std::exchange(impl_->events, {});
}

Parser::Finished Parser::finish(FinishReason reason) {
  return impl_->finish(reason);
}

bool Parser::reasoning() const {
  return impl_->harmony_reasoning || (impl_->options.family != Family::harmony && impl_->splitter.inside());
}
bool Parser::in_call() const {
  return impl_->in_call;
}

Message parse_message(std::string_view text, ParserOptions options, FinishReason reason) {
  Parser parser(std::move(options));
  parser.feed(text);
  return parser.finish(reason).message;
}

}  // namespace gezel::turn
