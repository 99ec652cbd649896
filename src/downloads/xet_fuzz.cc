// What a hub and its storage send: no crash, nothing unpacked beyond what was said, the same for every split.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "downloads/lz4.h"
#include "downloads/xet.h"

namespace {

std::string unpacked(std::string_view text, std::size_t piece) {
  using namespace gezel;
  downloads::xet::ChunkReader reader;
  std::string out;
  for (std::size_t at = 0; at < text.size(); at += piece) {
    const auto fed =
        reader.feed(text.substr(at, piece), [&](std::uint32_t, std::string_view bytes) -> Result<> {
          out += bytes;
          return {};
        });
    if (!fed) return out + "(error)";
  }
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace gezel::downloads;
  if (size > 4096) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::size_t wanted = size == 0 ? 0 : data[0] * 4U;
  if (const auto plain = read_lz4_frame(text, wanted); plain && plain->size() != wanted) std::abort();
  if (unpacked(text, 1) != unpacked(text, size + 1)) std::abort();
  if (const auto plan = xet::parse_reconstruction(text)) {
    for (const auto& term : plan->terms) {
      if (term.segment >= plan->segments.size()) std::abort();
    }
  }
  static_cast<void>(xet::parse_access(text));
  return 0;
}
