// The other direction: pieces of parts become one image. All cells stand in one stream, in ascending order of
// position, which is also the order in which a run would have computed them.
#include <fmt/format.h>

#include <algorithm>

#include "kvcache/bytes_io.h"
#include "kvcache/image.h"

namespace gezel::kvcache {
namespace {

constexpr std::uint32_t kMagic = 0xaf143cd8;

std::unexpected<Error> range_error(std::string what) {
  return fail(ErrorKind::internal, "image-range", std::move(what));
}

// A cursor over `out`; its size was checked before.
class Output {
 public:
  explicit Output(std::span<std::byte> out) : out_(out) {}
  template <class T>
  void write(const T& value) {
    append(std::as_bytes(std::span(&value, 1)));
  }
  void append(ByteSpan bytes) {
    std::memcpy(out_.data() + at_, bytes.data(), bytes.size());
    at_ += bytes.size();
  }
  std::size_t size() const { return at_; }

 private:
  std::span<std::byte> out_;
  std::size_t at_ = 0;
};

struct RowPiece {
  ByteSpan bytes;
  std::size_t tokens = 0;  // of the whole part
  std::size_t from = 0, to = 0;
};

Bytes section_bytes(const RowLayout& layout, std::uint32_t streams, std::uint64_t tokens) {
  Bytes sum = 4 + Bytes{streams} * 4;
  if (tokens == 0) return sum;
  sum += tokens * (layout.token_bytes() + 8) + 8;
  return sum + 12 * (layout.keys.size() + layout.values.size());
}

void write_section(Output& out, const RowLayout& layout, ImageTarget target,
                   std::span<const RowPiece> pieces) {
  std::size_t tokens = 0;
  for (const RowPiece& piece : pieces) tokens += piece.to - piece.from;
  out.write(target.streams);
  const std::uint32_t stream =
      target.sequence >= 0 && static_cast<std::uint32_t>(target.sequence) < target.streams
          ? static_cast<std::uint32_t>(target.sequence)
          : 0;
  for (std::uint32_t i = 0; i < target.streams; ++i) {
    if (i != stream || tokens == 0) {
      out.write(std::uint32_t{0});
      continue;
    }
    out.write(static_cast<std::uint32_t>(tokens));
    const std::size_t extension = layout.extension_bytes;
    for (const RowPiece& piece : pieces) {
      for (std::size_t token = piece.from; token < piece.to; ++token) {
        out.append(piece.bytes.subspan(token * 4, 4));
        out.write(std::uint32_t{1});
        if (extension > 0) out.append(piece.bytes.subspan(piece.tokens * 4 + token * extension, extension));
        out.write(target.sequence);
      }
    }
    out.write(std::uint32_t{layout.values_transposed});
    out.write(static_cast<std::uint32_t>(layout.keys.size()));
    // `base`: bytes per token that stand before this array in a part.
    std::size_t base = 4 + extension;
    const auto copy = [&](std::size_t size) {
      for (const RowPiece& piece : pieces)
        out.append(
            piece.bytes.subspan(base * piece.tokens + piece.from * size, (piece.to - piece.from) * size));
      base += size;
    };
    for (const LayerLayout& layer : layout.keys) {
      out.write(layer.type);
      out.write(layer.row_bytes);
      copy(layer.row_bytes);
    }
    for (const LayerLayout& layer : layout.values) {
      out.write(layer.type);
      if (!layout.values_transposed) {
        out.write(layer.row_bytes);
        copy(layer.row_bytes);
        continue;
      }
      out.write(layer.element_bytes);
      out.write(layer.elements);
      for (std::uint32_t element = 0; element < layer.elements; ++element) copy(layer.element_bytes);
    }
  }
}

Result<RowPiece> window_piece(const ImageLayout& layout, const Checkpoint& checkpoint) {
  if (!layout.window || checkpoint.window_tokens == 0 ||
      checkpoint.bytes.size() != checkpoint.window_tokens * layout.window->token_bytes()) {
    return range_error("The window checkpoint does not have the size that this context's layout gives it.");
  }
  return RowPiece{checkpoint.bytes, checkpoint.window_tokens, 0, checkpoint.window_tokens};
}

// One V array between the two orders; `to_rows`: from runs of elements to rows. Of the runs only the tokens
// [from, to) are used.
void transpose_layer(const LayerLayout& layer, const std::byte* in, std::byte* out, const RowRange& rows,
                     bool to_rows) {
  const std::size_t size = layer.element_bytes, count = rows.to - rows.from;
  for (std::size_t element = 0; element < layer.elements; ++element) {
    for (std::size_t token = 0; token < count; ++token) {
      const std::size_t run = (element * rows.tokens + rows.from + token) * size,
                        row = (token * layer.elements + element) * size;
      std::memcpy(out + (to_rows ? row : run), in + (to_rows ? run : row), size);
    }
  }
}

// Bytes per token that stand before the V arrays.
std::size_t bytes_before_values(const RowLayout& layout) {
  std::size_t base = sizeof(std::int32_t) + layout.extension_bytes;
  for (const LayerLayout& layer : layout.keys) base += layer.row_bytes;
  return base;
}

Rows transpose(const RowLayout& layout, Rows rows, bool to_rows) {
  if (!layout.values_transposed || rows.bytes.size() != rows.tokens * layout.token_bytes()) return rows;
  const RowRange all{.bytes = rows.bytes, .tokens = rows.tokens, .from = 0, .to = rows.tokens};
  std::size_t base = bytes_before_values(layout);
  Buffer scratch;
  for (const LayerLayout& layer : layout.values) {
    std::byte* const at = rows.bytes.data() + base * rows.tokens;
    scratch.assign(at, at + layer.row_bytes * rows.tokens);
    transpose_layer(layer, scratch.data(), at, all, to_rows);
    base += layer.row_bytes;
  }
  return rows;
}

}  // namespace

Bytes composed_bytes(const ImageLayout& layout, ImageTarget target, std::uint64_t tokens,
                     const Checkpoint* checkpoint) {
  if (checkpoint != nullptr && checkpoint->kind == Checkpoint::Kind::whole) return checkpoint->bytes.size();
  Bytes sum = 8 + section_bytes(layout.rows, target.streams, tokens);
  if (checkpoint == nullptr) return sum;
  if (checkpoint->kind == Checkpoint::Kind::state) return sum + checkpoint->bytes.size();
  return sum + (layout.window ? section_bytes(*layout.window, target.streams, checkpoint->window_tokens) : 0);
}

Result<Bytes> compose_image(const ImageLayout& layout, ImageTarget target, std::span<const Piece> pieces,
                            const Checkpoint* checkpoint, std::span<std::byte> out) {
  using Kind = Checkpoint::Kind;
  const auto too_small = [&](Bytes needed) {
    return range_error(fmt::format("The image takes {}, the buffer has {}.", format_bytes(needed),
                                   format_bytes(out.size())));
  };
  if (checkpoint != nullptr && checkpoint->kind == Kind::whole) {
    if (!pieces.empty()) return range_error("A whole image takes no rows beside it.");
    if (checkpoint->bytes.size() > out.size()) return too_small(checkpoint->bytes.size());
    std::copy(checkpoint->bytes.begin(), checkpoint->bytes.end(), out.begin());
    return checkpoint->bytes.size();
  }
  if (layout.window && (checkpoint == nullptr || checkpoint->kind != Kind::window))
    return range_error("A model with a sliding window is restored only with the window at that position.");
  if (!layout.window && checkpoint != nullptr && checkpoint->kind == Kind::window)
    return range_error("A window checkpoint was given for a model without a sliding window.");

  std::vector<RowPiece> rows;
  std::uint64_t tokens = 0;
  std::int64_t before = -1;
  for (const Piece& piece : pieces) {
    const Rows* part = piece.part.get();
    if (part == nullptr || piece.from >= piece.to || piece.to > part->tokens ||
        part->bytes.size() != part->tokens * layout.rows.token_bytes()) {
      return range_error("A piece lies outside its part, or the part has another layout.");
    }
    for (std::uint32_t i = piece.from; i < piece.to; ++i) {
      const std::int64_t position = part->position(i);
      const bool follows = layout.rows.extension_bytes == 0
                               ? position == before + 1
                               : position >= before && (before >= 0 || position == 0);
      if (!follows)
        return range_error(fmt::format("Position {} does not follow position {}.", position, before));
      before = position;
    }
    rows.push_back({part->bytes, part->tokens, piece.from, piece.to});
    tokens += piece.tokens();
  }
  if (tokens == 0 || tokens > 0x7fffffff) return range_error("An image has 1 to 2^31 - 1 tokens.");
  const Bytes needed = composed_bytes(layout, target, tokens, checkpoint);
  if (needed > out.size()) return too_small(needed);

  Output writer(out);
  writer.write(kMagic);
  writer.write(target.sequence);
  write_section(writer, layout.rows, target, rows);
  if (checkpoint != nullptr && checkpoint->kind == Kind::window) {
    GEZEL_TRY(const RowPiece window, window_piece(layout, *checkpoint));
    write_section(writer, *layout.window, target, std::span(&window, 1));
  } else if (checkpoint != nullptr) {
    writer.append(checkpoint->bytes);
  }
  return writer.size();
}

Result<Buffer> compose_checkpoint(const ImageLayout& layout, ImageTarget target,
                                  const Checkpoint& checkpoint) {
  if (checkpoint.kind == Checkpoint::Kind::whole) return checkpoint.bytes;
  Buffer image;
  ByteWriter header(image);
  header.write(kMagic);
  header.write(target.sequence);
  if (checkpoint.kind == Checkpoint::Kind::state) {
    header.append(checkpoint.bytes);
    return image;
  }
  GEZEL_TRY(const RowPiece window, window_piece(layout, checkpoint));
  image.resize(8 + section_bytes(*layout.window, target.streams, checkpoint.window_tokens));
  Output writer{std::span(image).subspan(8)};
  write_section(writer, *layout.window, target, std::span(&window, 1));
  return image;
}

Part slice(const RowLayout& layout, const Piece& piece) {
  const Rows& from = *piece.part;
  if (piece.tokens() == from.tokens) return piece.part;
  auto rows = std::make_shared<Rows>();
  rows->tokens = piece.tokens();
  rows->bytes.resize(rows->tokens * layout.token_bytes());
  std::size_t base = 0;  // bytes per token that stand before this array
  const auto copy = [&](std::size_t size) {
    std::memcpy(rows->bytes.data() + base * rows->tokens,
                from.bytes.data() + base * from.tokens + piece.from * size, rows->tokens * size);
    base += size;
  };
  copy(sizeof(std::int32_t));
  if (layout.extension_bytes > 0) copy(layout.extension_bytes);
  for (const LayerLayout& layer : layout.keys) copy(layer.row_bytes);
  for (const LayerLayout& layer : layout.values) {
    if (!layout.values_transposed) {
      copy(layer.row_bytes);
      continue;
    }
    for (std::uint32_t element = 0; element < layer.elements; ++element) copy(layer.element_bytes);
  }
  return rows;
}

RowLayout row_major(RowLayout layout) {
  layout.values_transposed = false;
  for (LayerLayout& layer : layout.values) layer.element_bytes = layer.elements = 0;
  return layout;
}

Rows to_row_major(const RowLayout& layout, Rows rows) {
  return transpose(layout, std::move(rows), true);
}
Rows from_row_major(const RowLayout& layout, Rows rows) {
  return transpose(layout, std::move(rows), false);
}

void visit_row_major(const RowLayout& layout, const RowRange& rows,
                     const std::function<void(ByteSpan)>& visit) {
  const std::size_t count = rows.to - rows.from;
  std::size_t base = 0;
  const auto pass = [&](std::size_t size) {
    if (size > 0) visit(rows.bytes.subspan(base * rows.tokens + rows.from * size, count * size));
    base += size;
  };
  pass(sizeof(std::int32_t));
  pass(layout.extension_bytes);
  for (const LayerLayout& layer : layout.keys) pass(layer.row_bytes);
  Buffer scratch;
  for (const LayerLayout& layer : layout.values) {
    if (!layout.values_transposed) {
      pass(layer.row_bytes);
      continue;
    }
    scratch.resize(count * layer.row_bytes);
    transpose_layer(layer, rows.bytes.data() + base * rows.tokens, scratch.data(), rows, true);
    visit(scratch);
    base += layer.row_bytes;
  }
}

Bytes row_major_scratch(const RowLayout& layout, std::uint64_t tokens) {
  if (!layout.values_transposed) return 0;
  Bytes most = 0;
  for (const LayerLayout& layer : layout.values) most = std::max<Bytes>(most, layer.row_bytes * tokens);
  return most;
}

}  // namespace gezel::kvcache
