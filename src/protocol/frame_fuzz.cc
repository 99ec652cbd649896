// Any bytes, cut anywhere, give the same frames, and a frame's body is exactly what stood in the stream.
#include <cstdlib>
#include <vector>

#include "protocol/frame.h"

namespace {

using gezel::protocol::FrameReader;

struct Seen {
  std::vector<std::string> frames;  // re-encoded
  bool broken = false;
  bool operator==(const Seen&) const = default;
};

void drain(FrameReader& reader, Seen& seen) {
  for (;;) {
    auto frame = reader.next();
    if (!frame) seen.broken = true;
    if (!frame || !*frame) return;
    seen.frames.push_back(gezel::protocol::encode_frame((*frame)->type, (*frame)->body));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view stream(reinterpret_cast<const char*>(data), size);
  FrameReader whole, pieces;
  Seen expected, seen;
  whole.feed(stream);
  drain(whole, expected);
  for (std::size_t at = 0; at < size;) {
    const std::size_t piece = std::min<std::size_t>(1 + data[at] % 13, size - at);
    pieces.feed(stream.substr(at, piece));
    drain(pieces, seen);
    at += piece;
  }
  drain(pieces, seen);
  if (!(seen == expected)) std::abort();
  std::string joined;
  for (const std::string& frame : expected.frames) joined += frame;
  if (!stream.starts_with(joined)) std::abort();
  return 0;
}
