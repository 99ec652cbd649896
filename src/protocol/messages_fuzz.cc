// The first byte chooses the message, the rest is its body. What parses is JSON to another reader too, and
// encodes to something that parses to the same; what does not parse says so with the one error code.
#include <cstdlib>

#include "base/json.h"
#include "protocol/messages.h"

namespace {

using namespace gezel::protocol;

template <class Parse, class Encode>
void check(std::string_view body, Parse parse, Encode encode_message) {
  const auto message = parse(body);
  if (!message) {
    if (message.error().code != "protocol_error" || message.error().message.empty()) std::abort();
    return;
  }
  if (!gezel::parse_json(body)) std::abort();
  const std::string once = encode_message(*message);
  const auto again = parse(std::string_view(once).substr(kFrameHeaderBytes));
  if (!again || encode_message(*again) != once) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view body(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto plain = [](const auto& message) { return encode(message); };
  switch (data[0] % 19) {
    case 0:
      check(body, parse_hello, [](const Hello& m) { return encode(FrameType::hello, m); });
      break;
    case 1:
      check(body, parse_load, plain);
      break;
    case 2:
      check(body, parse_ready, plain);
      break;
    case 3:
      check(body, parse_phase, plain);
      break;
    case 4:
      if (const auto generate = parse_generate(body); generate && peek_id(body) != generate->id) std::abort();
      check(body, parse_generate, plain);
      break;
    case 5:
      check(body, parse_started, plain);
      break;
    case 6:
      check(body, parse_step, plain);
      break;
    case 7:
      check(body, parse_progress, plain);
      break;
    case 8:
      check(body, parse_done, plain);
      break;
    case 9:
      check(body, parse_failed, plain);
      break;
    case 10:
      check(body, parse_stats, plain);
      break;
    case 11:
      check(body, parse_tokens_query, plain);
      break;
    case 12:
      check(body, parse_tokens_reply, plain);
      break;
    case 13:
      check(body, parse_control, plain);
      break;
    case 14:
      check(body, parse_cancel, encode_cancel);
      break;
    case 15:
      check(body, parse_measure, plain);
      break;
    case 16:
      check(body, parse_measured, plain);
      break;
    case 17:
      check(body, parse_cache_query, plain);
      break;
    case 18:
      check(body, parse_cache_reply, plain);
      break;
  }
  return 0;
}
