// The messages of harmony (gpt-oss), spec 50 section 5.3. Everything the model writes is a message with a
// header, and generation begins inside the first one. The header says whether a message is reasoning, content
// or a call.
#include <algorithm>
#include <array>

#include "turn/parser_impl.h"

namespace gezel::turn {
namespace {

constexpr std::size_t kMaxHeader = 512;
constexpr std::string_view kMessage = "<|message|>";
constexpr std::string_view kChannel = "<|channel|>";
constexpr std::string_view kStart = "<|start|>";

// What ends a body. A new message may also begin without its first token.
enum End { kEndOfMessage, kReturn, kCall, kNextStart, kNextChannel };
constexpr std::array<std::string_view, 5> kEnds = {"<|end|>", "<|return|>", "<|call|>", kStart, kChannel};
constexpr std::size_t kConsumedEnds = 3;  // the first ones belong to the message they end

struct Header {
  enum class Kind : std::uint8_t {
    message,  // a body follows
    none,     // no header: what stands here is text
    empty,    // a header without a body
    end,      // of the text
  } kind = Kind::none;
  std::string channel, recipient;
};

std::string_view word(std::string_view text) {
  std::size_t end = 0;
  while (end < text.size() && !is_space(text[end]) && !text.substr(end).starts_with("<|")) ++end;
  return text.substr(0, end);
}

Header parse_header(std::string_view text) {
  Header header{.kind = Header::Kind::message};
  if (const std::size_t channel = text.find(kChannel); channel != text.npos) {
    header.channel = word(trimmed(text.substr(channel + kChannel.size())));
  }
  for (std::size_t at = text.find("to="); at != text.npos; at = text.find("to=", at + 1)) {
    if (at == 0 || is_space(text[at - 1]) || text[at - 1] == '>') {
      header.recipient = word(text.substr(at + 3));
      break;
    }
  }
  return header;
}

// Reads a header. The first one has begun in the prompt: it may be missing altogether.
auto read_header(Input& input, bool first) {
  return input.when([first](Input& in) -> std::optional<Header> {
    const std::string_view text = in.view().substr(0, kMaxHeader);
    const std::string_view head =
        text.substr(static_cast<std::size_t>(std::ranges::find_if_not(text, is_space) - text.begin()));
    const bool more = !in.ended() && text.size() < kMaxHeader;
    if (head.empty()) {
      if (more) return std::nullopt;
      if (in.ended()) in.skip(text.size());
      return Header{in.ended() ? Header::Kind::end : Header::Kind::none, {}, {}};
    }
    const auto begins = [&](std::string_view token) {
      return head.starts_with(token) || (more && token.starts_with(head));
    };
    if (!begins("<|") && !(first && begins("to="))) return Header{};
    std::size_t nearest = text.npos, size = 0;
    bool message = false;
    for (const std::string_view token : {kMessage, kEnds[0], kEnds[1], kEnds[2]}) {
      if (const std::size_t found = text.find(token); found < nearest) {
        nearest = found;
        size = token.size();
        message = token == kMessage;
      }
    }
    if (nearest == text.npos) {
      if (more) return std::nullopt;
      if (!in.ended()) return Header{};
      in.skip(in.view().size());
      return Header{Header::Kind::end, {}, {}};
    }
    Header header = message ? parse_header(text.substr(0, nearest)) : Header{Header::Kind::empty, {}, {}};
    in.skip(nearest + size);
    return header;
  });
}

// Skips to the end of a body and over the token that belongs to it.
auto skip_body(Input& input) {
  return input.when([](Input& in) -> std::optional<bool> {
    for (;;) {
      const std::string_view text = in.view();
      const std::size_t found = std::min(text.find("<|"), text.size());
      bool may_come = !in.ended() && found + 2 > text.size();
      for (std::size_t i = 0; i < kEnds.size(); ++i) {
        const std::string_view rest = text.substr(found);
        if (rest.starts_with(kEnds[i])) {
          in.skip(found + (i < kConsumedEnds ? kEnds[i].size() : 0));
          return true;
        }
        may_come = may_come || (!in.ended() && kEnds[i].starts_with(rest));
      }
      if (may_come) {
        // The last byte may be the first of a token.
        in.skip(found == text.size() && !text.empty() && text.back() == '<' ? found - 1 : found);
        return std::nullopt;
      }
      in.skip(std::min(found + 2, text.size()));
      if (in.view().empty()) return in.ended() ? std::optional<bool>(false) : std::nullopt;
    }
  });
}

}  // namespace

Task<> Parser::Impl::read_harmony() {
  if (options.start == StartState::open) co_await read_harmony_text(true);
  for (bool first = options.start != StartState::open;; first = false) {
    const Header header = co_await read_header(in, first);
    if (header.kind == Header::Kind::end) co_return;
    if (header.kind == Header::Kind::empty) continue;
    const std::string& to = header.recipient;
    if (header.kind == Header::Kind::none) {
      // A token that begins no header is dropped, and the text behind it is shown.
      if (!co_await in.literal(kStart)) co_await in.literal(kChannel);
      co_await read_harmony_text(false);
    } else if (to == "assistant") {
      co_await skip_body(in);
    } else if (!to.empty() && calls_on()) {
      const bool function = to.starts_with("functions.");
      const bool known = function || book.names().resolve(to);
      // Not in the call below: GCC 12 destroys a conditional's temporary in an awaited call twice.
      std::string name = function ? to.substr(10) : to;
      co_await read_harmony_call(std::move(name), known);
    } else {
      co_await read_harmony_text(to.empty() && header.channel == "analysis" && options.split_reasoning);
    }
  }
}

// A body that is shown. Pieces of content are joined with a blank line.
Task<> Parser::Impl::read_harmony_text(bool inside) {
  if (inside) {
    any_block = true;
    reasoning_writer.begin_block();
  }
  remove_span();
  if (!inside) write_content("\n");
  harmony_reasoning = inside;
  for (;;) {
    const std::string_view text = in.view();
    const std::size_t plain = std::min(text.find('<'), text.size());
    if (plain > 0) {
      inside ? write_reasoning(text.substr(0, plain)) : write_content(text.substr(0, plain));
      in.skip(plain);
    }
    const int end = co_await in.when([](Input& input) -> std::optional<int> {
      const std::string_view rest = input.view();
      if (rest.empty()) return input.ended() ? std::optional<int>(-2) : std::nullopt;
      if (rest.front() != '<') return -1;
      bool may_come = false;
      for (std::size_t i = 0; i < kEnds.size(); ++i) {
        if (rest.starts_with(kEnds[i])) return static_cast<int>(i);
        may_come = may_come || kEnds[i].starts_with(rest);
      }
      if (rest.starts_with(kMessage)) return static_cast<int>(kEnds.size());
      may_come = may_come || kMessage.starts_with(rest);
      return may_come && !input.ended() ? std::nullopt : std::optional<int>(-1);
    });
    if (end == -2) break;
    if (end == -1) {
      // A plain `<`, or text that has arrived since.
      if (in.view().front() != '<') continue;
      inside ? write_reasoning("<") : write_content("<");
      in.skip(1);
    } else if (end == static_cast<int>(kEnds.size())) {
      in.skip(kMessage.size());  // a stray token
    } else {
      if (end < static_cast<int>(kConsumedEnds)) in.skip(kEnds[static_cast<std::size_t>(end)].size());
      break;
    }
  }
  harmony_reasoning = false;
  remove_span();
}

Task<> Parser::Impl::read_harmony_call(std::string name, bool known) {
  remove_span();
  hold.release();
  stream_content();
  in_call = true;
  BodyContext c{.in = in, .book = book, .dialect = dialect(family_form(1)), .cut = cut, .begin = in.offset()};
  in.capture(&c.captured, kMaxUnparsedBytes);
  book.open(family_form(1), name, {});
  BodyEnd end = BodyEnd::complete;
  if (known) {
    end = co_await read_json_arguments(c, {.closers = kEnds});
    if (end == BodyEnd::malformed && !c.counted) book.malformed(c.captured);
    if (end == BodyEnd::truncated && !c.counted) book.truncated(name);
    co_await skip_body(in);
  } else {
    // Code for a tool of the model's own: hidden, and reported as unknown.
    co_await skip_body(in);
    book.close({.span = c.span(), .raw = c.captured});
  }
  in.capture(nullptr);
  in_call = false;
}

}  // namespace gezel::turn
