// Encoding walks a message's description once and appends to the frame; parsing walks the bytes once and
// fills the message.
#include "protocol/messages.h"

#include <fmt/format.h>

#include <limits>

#include "base/utf8.h"
#include "protocol/schema.h"

namespace gezel::protocol {
namespace {

template <class Message>
std::string encode_message(FrameType type, const Message& message) {
  std::string frame(kFrameHeaderBytes, '\0');
  FieldWriter(frame).write(message);
  const auto size = static_cast<std::uint32_t>(frame.size() - kFrameHeaderBytes);
  for (int i = 0; i < 4; ++i) frame[static_cast<std::size_t>(i)] = static_cast<char>(size >> (8 * i) & 0xff);
  frame[4] = static_cast<char>(type);
  return frame;
}

template <class Message>
Result<Message> parse_message(FrameType type, std::string_view body) {
  if (const auto offset = find_invalid_utf8(body)) {
    return fail(ErrorKind::corrupt, "protocol_error",
                fmt::format("{} frame: the body is not UTF-8 at byte {}", frame_name(type), *offset));
  }
  JsonReader in(frame_name(type), body);
  Result<Message> message;
  if (!read_value(in, *message) || !in.end()) return std::unexpected(in.take_error());
  return message;
}

}  // namespace

std::string encode(FrameType hello_direction, const Hello& m) {
  return encode_message(hello_direction, m);
}
std::string encode(const Load& m) {
  return encode_message(FrameType::load, m);
}
std::string encode(const Ready& m) {
  return encode_message(FrameType::ready, m);
}
std::string encode(const Phase& m) {
  return encode_message(FrameType::phase, m);
}
std::string encode(const Generate& m) {
  return encode_message(FrameType::generate, m);
}
std::string encode(const Started& m) {
  return encode_message(FrameType::started, m);
}
std::string encode(const Step& m) {
  return encode_message(FrameType::step, m);
}
std::string encode(const Progress& m) {
  return encode_message(FrameType::progress, m);
}
std::string encode(const Done& m) {
  return encode_message(FrameType::done, m);
}
std::string encode(const Failed& m) {
  return encode_message(FrameType::failed, m);
}
std::string encode(const Stats& m) {
  return encode_message(FrameType::stats_reply, m);
}
std::string encode(const TokensQuery& m) {
  return encode_message(FrameType::tokens, m);
}
std::string encode(const TokensReply& m) {
  return encode_message(FrameType::tokens_reply, m);
}
std::string encode(const Control& m) {
  return encode_message(FrameType::control, m);
}
std::string encode(const CacheQuery& m) {
  return encode_message(FrameType::cache, m);
}
std::string encode(const CacheReply& m) {
  return encode_message(FrameType::stats_reply, m);
}
std::string encode_cancel(std::uint64_t id) {
  return encode_message(FrameType::cancel, Cancel{id});
}
std::string encode_empty(FrameType type) {
  return encode_frame(type, "{}");
}

Result<Hello> parse_hello(std::string_view body) {
  return parse_message<Hello>(FrameType::hello, body);
}
Result<Load> parse_load(std::string_view body) {
  return parse_message<Load>(FrameType::load, body);
}
Result<Ready> parse_ready(std::string_view body) {
  return parse_message<Ready>(FrameType::ready, body);
}
Result<Phase> parse_phase(std::string_view body) {
  return parse_message<Phase>(FrameType::phase, body);
}
Result<Generate> parse_generate(std::string_view body) {
  return parse_message<Generate>(FrameType::generate, body);
}
Result<Started> parse_started(std::string_view body) {
  return parse_message<Started>(FrameType::started, body);
}
Result<Step> parse_step(std::string_view body) {
  return parse_message<Step>(FrameType::step, body);
}
Result<Progress> parse_progress(std::string_view body) {
  return parse_message<Progress>(FrameType::progress, body);
}
Result<Done> parse_done(std::string_view body) {
  return parse_message<Done>(FrameType::done, body);
}
Result<Failed> parse_failed(std::string_view body) {
  return parse_message<Failed>(FrameType::failed, body);
}
Result<Stats> parse_stats(std::string_view body) {
  return parse_message<Stats>(FrameType::stats_reply, body);
}
Result<TokensQuery> parse_tokens_query(std::string_view body) {
  return parse_message<TokensQuery>(FrameType::tokens, body);
}
Result<TokensReply> parse_tokens_reply(std::string_view body) {
  return parse_message<TokensReply>(FrameType::tokens_reply, body);
}
Result<Control> parse_control(std::string_view body) {
  return parse_message<Control>(FrameType::control, body);
}
Result<CacheQuery> parse_cache_query(std::string_view body) {
  return parse_message<CacheQuery>(FrameType::cache, body);
}
Result<CacheReply> parse_cache_reply(std::string_view body) {
  return parse_message<CacheReply>(FrameType::stats_reply, body);
}
bool is_cache_reply(std::string_view body) {
  return peek_id(body).has_value();
}
Result<std::uint64_t> parse_cancel(std::string_view body) {
  GEZEL_TRY(const Cancel cancel, parse_message<Cancel>(FrameType::cancel, body));
  return cancel.id;
}

std::optional<std::uint64_t> peek_id(std::string_view body) {
  JsonReader in("", body);
  std::optional<std::uint64_t> found;
  in.object([&](std::string_view key) {
    if (key != "id") return in.skip();
    std::uint64_t id = 0;
    if (in.integer(id, std::uint64_t{0}, std::numeric_limits<std::uint64_t>::max())) found = id;
    return false;  // whatever follows is not looked at
  });
  return found;
}

}  // namespace gezel::protocol
