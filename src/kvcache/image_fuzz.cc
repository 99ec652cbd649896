// Any bytes are an image or not. What is one can be taken apart at any token and put together to the same
// rows.
#include <cstdint>
#include <cstdlib>
#include <span>

#include "kvcache/image.h"

namespace {

using namespace gezel::kvcache;

void round_trip(const Image& image, std::uint32_t at, std::uint32_t streams) {
  const std::uint32_t tokens = image.tokens();
  const std::optional<Checkpoint> checkpoint = image.checkpoint();
  const Checkpoint* state = checkpoint ? &*checkpoint : nullptr;
  std::vector<Piece> pieces;
  for (const auto [from, to] : {std::pair{0U, at}, std::pair{at, tokens}}) {
    if (from == to) continue;
    auto rows = image.cut(from, to);
    if (!rows) std::abort();
    const RowLayout& layout = image.layout().rows;
    if (from_row_major(layout, to_row_major(layout, *rows)).bytes != rows->bytes) std::abort();
    pieces.push_back({std::make_shared<const Rows>(std::move(*rows)), 0, to - from});
  }
  const ImageTarget target{streams, 0};
  gezel::Buffer out(composed_bytes(image.layout(), target, tokens, state));
  const auto size = compose_image(image.layout(), target, pieces, state, out);
  if (image.position(0) != 0) {
    if (size) std::abort();
    return;
  }
  if (!size || *size != out.size()) std::abort();
  const ImageKind kind = !checkpoint                                    ? ImageKind::plain
                         : checkpoint->kind == Checkpoint::Kind::window ? ImageKind::window
                                                                        : ImageKind::state;
  const auto again = Image::parse(out, kind);
  if (!again || again->tokens() != tokens || again->streams() != streams) std::abort();
  if (again->layout() == image.layout() && again->cut(0, tokens)->bytes != image.cut(0, tokens)->bytes)
    std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const auto bytes = std::as_bytes(std::span(data, size)).subspan(2);
  for (const ImageKind kind : {ImageKind::plain, ImageKind::window, ImageKind::state}) {
    if (const auto image = Image::parse(bytes, kind); image && image->tokens() > 0)
      round_trip(*image, data[0] % image->tokens(), 1 + data[1] % 8);
    (void)parse_checkpoint(bytes, kind);
  }
  return 0;
}
