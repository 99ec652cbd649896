#include "llama/synthetic_depth.h"

#include <llama.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "llama/library.h"

namespace gezel::llama {
namespace {

constexpr std::int64_t kSeedTokens = 64;

// `count` bytes that repeat the `period` bytes at `from`.
void repeat_bytes(std::byte*& out, const std::byte* from, std::size_t period, std::size_t count) {
  for (std::size_t done = 0; done < count; done += period)
    std::memcpy(out + done, from, std::min(period, count - done));
  out += count;
}

// The rows of `seed` again and again, as tokens at `position` and after.
kvcache::Rows repeat(const kvcache::RowLayout& layout, const kvcache::Rows& seed, std::int32_t position,
                     std::uint32_t count) {
  kvcache::Rows rows{.tokens = count, .bytes = {}};
  rows.bytes.resize(count * layout.token_bytes());
  std::byte* out = rows.bytes.data();
  for (std::uint32_t i = 0; i < count; ++i, out += sizeof(std::int32_t)) {
    const std::int32_t at = position + static_cast<std::int32_t>(i);
    std::memcpy(out, &at, sizeof at);
  }
  const std::byte* from = seed.bytes.data() + seed.tokens * sizeof(std::int32_t);
  // One array of `size` bytes a token.
  const auto array = [&](std::size_t size) {
    repeat_bytes(out, from, seed.tokens * size, count * size);
    from += seed.tokens * size;
  };
  if (layout.extension_bytes > 0) array(layout.extension_bytes);
  for (const auto& layer : layout.keys) array(layer.row_bytes);
  for (const auto& layer : layout.values) {
    if (!layout.values_transposed) {
      array(layer.row_bytes);
      continue;
    }
    for (std::uint32_t element = 0; element < layer.elements; ++element) array(layer.element_bytes);
  }
  return rows;
}

kvcache::ImageKind kind_of(const Model& model) {
  if (model.recurrent()) return kvcache::ImageKind::state;
  return model.sliding_window() > 0 ? kvcache::ImageKind::window : kvcache::ImageKind::plain;
}

}  // namespace

Result<> SyntheticDepth::compute_seed(int slot) {
  const auto count = std::min<std::int64_t>(kSeedTokens, context_.context_per_slot() - 1);
  std::vector<Row> rows;
  const int words = model_.vocab().size();
  for (std::int32_t at = 0; at < count; ++at)
    rows.push_back({.token = (at * 7919 + 17) % words, .position = at, .slot = slot, .logits = false});
  rows.back().logits = true;
  context_.remove(slot, -1, -1);
  const DecodeCode code = context_.decode(rows);
  if (code == DecodeCode::aborted) return fail(ErrorKind::cancelled, "cancelled", "interrupted");
  if (code != DecodeCode::ok)
    return fail(ErrorKind::internal, "engine-internal", "the tokens of a synthetic depth cannot be computed");
  std::vector<std::byte> bytes(llama_state_seq_get_size(context_.get(), slot));
  const auto written = llama_state_seq_get_data(context_.get(), reinterpret_cast<std::uint8_t*>(bytes.data()),
                                                bytes.size(), slot);
  bytes.resize(std::min(written, bytes.size()));
  GEZEL_TRY(const auto image, kvcache::Image::parse(bytes, kind_of(model_)));
  GEZEL_TRY(seed_, image.cut(0, image.tokens()));
  if (const auto checkpoint = image.checkpoint()) {
    window_seed_.tokens = checkpoint->window_tokens;
    window_seed_.bytes = checkpoint->bytes;
  }
  layout_ = image.layout();
  return {};
}

Result<> SyntheticDepth::fill(int slot, std::int64_t depth) {
  if (depth == 0) {
    context_.remove(slot, -1, -1);
    return {};
  }
  // The state of recurrent layers has no rows: a conversation of any length leaves one.
  if (model_.recurrent()) {
    return fail(ErrorKind::invalid, "unsupported-feature",
                "a recurrent model's memory cannot be filled to a depth without computing it");
  }
  if (!layout_) GEZEL_CHECK(compute_seed(slot));
  context_.remove(slot, -1, -1);

  std::vector<kvcache::Piece> pieces;
  for (std::int64_t at = 0; at < depth; at += kvcache::kPartTokens) {
    const auto count = static_cast<std::uint32_t>(std::min<std::int64_t>(kvcache::kPartTokens, depth - at));
    auto part = std::make_shared<const kvcache::Rows>(
        repeat(layout_->rows, seed_, static_cast<std::int32_t>(at), count));
    pieces.push_back({std::move(part), 0, count});
  }
  std::optional<kvcache::Checkpoint> window;
  if (layout_->window) {
    const auto count = static_cast<std::uint32_t>(std::min<std::int64_t>(depth, model_.sliding_window()));
    window = kvcache::Checkpoint{
        .kind = kvcache::Checkpoint::Kind::window,
        .window_tokens = count,
        .bytes =
            repeat(*layout_->window, window_seed_, static_cast<std::int32_t>(depth - count), count).bytes};
  }
  const kvcache::Checkpoint* checkpoint = window ? &*window : nullptr;
  const kvcache::ImageTarget target{static_cast<std::uint32_t>(context_.slots()), slot};
  Buffer bytes;
  bytes.resize(kvcache::composed_bytes(*layout_, target, static_cast<std::uint64_t>(depth), checkpoint));
  GEZEL_TRY(const Bytes size, kvcache::compose_image(*layout_, target, pieces, checkpoint, bytes));
  pieces.clear();
  const QuietScope quiet;
  const auto read = llama_state_seq_set_data(context_.get(),
                                             reinterpret_cast<const std::uint8_t*>(bytes.data()), size, slot);
  if (read != size || context_.position_max(slot) != depth - 1) {
    context_.remove(slot, -1, -1);
    return fail(ErrorKind::invalid, "unsupported-feature",
                "the engine does not take a synthetic conversation of this model");
  }
  return {};
}

}  // namespace gezel::llama
