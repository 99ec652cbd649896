// kvcache/image.h
//
// The state of one sequence as libllama exports and imports it, taken apart into rows of tokens and put
// together again (spec 40 section 11.0). The library knows whole sequences only; rows are what the tree
// keeps.
//
//   image = u32 magic, i32 sequence, section of the rows, then by model: nothing (plain), a section of the
//           sliding window, or the state of recurrent layers
//   section = u32 streams; per stream u32 cells and, if any: per cell i32 position, u32 1, [extension],
//           i32 sequence; u32 V transposed, u32 layers; per layer i32 type, u64 row bytes, K rows; per layer
//           with V: i32 type, u64 row bytes, V rows — or, transposed: i32 type, u32 element bytes, u32
//           elements, and per element one run over all cells
// Source: state_write_* in src/llama-kv-cache.cpp and src/llama-memory-*.cpp of the pinned library.
//
// An image that does not parse to its last byte is opaque: keep it whole as a Checkpoint::Kind::whole.
// Pure; any bytes are safe to parse.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/pages.h"
#include "base/result.h"

namespace gezel::kvcache {

// What one layer stores per token, in K or in V.
struct LayerLayout {
  std::int32_t type = 0;            // of ggml
  std::uint64_t row_bytes = 0;      // of one token
  std::uint32_t element_bytes = 0;  // transposed V only: row_bytes = element_bytes × elements
  std::uint32_t elements = 0;
  bool operator==(const LayerLayout&) const = default;
};

// What one section stores per token; the same for all images of one context.
struct RowLayout {
  std::uint32_t extension_bytes = 0;  // per cell; 12 for models with more than one position per token
  bool values_transposed = false;     // flash attention off
  std::vector<LayerLayout> keys;
  std::vector<LayerLayout> values;  // one per layer, or none (multi-head latent attention)
  bool operator==(const RowLayout&) const = default;

  Bytes token_bytes() const;  // of one token in Rows
};

// The sections of an image. Whatever one image of a context has, all have.
struct ImageLayout {
  RowLayout rows;
  std::optional<RowLayout> window;  // models with a sliding window
  bool operator==(const ImageLayout&) const = default;
};

// Tokens' rows: positions (i32 each), extensions, K of every layer, V of every layer; V as the layout says, a
// transposed one with runs of `tokens` elements. Size: tokens × RowLayout::token_bytes().
struct Rows {
  std::uint32_t tokens = 0;
  Buffer bytes;
  std::int32_t position(std::uint32_t token) const;
};
// Immutable and shared: by the nodes of a split, by runs that import, by the thread that writes to disk.
using Part = std::shared_ptr<const Rows>;

// Rows of at most this many tokens make one part.
inline constexpr std::uint32_t kPartTokens = 512;

// What rows alone do not restore, at one position.
struct Checkpoint {
  enum class Kind : std::uint8_t {
    window = 1,  // the cells of the sliding window, as Rows in `bytes`
    state = 2,   // the state of recurrent layers
    whole = 3,   // an image that needs no rows: recurrent models, and images that do not parse
  };
  Kind kind = Kind::whole;
  std::uint32_t window_tokens = 0;
  Buffer bytes;
};

// What follows the rows in an image of this model.
enum class ImageKind { plain, window, state };

// A parsed image; the bytes must outlive it.
class Image {
 public:
  // `expected`: the layout of the context's first image; all others must have it. Errors: `image-invalid`
  // with what was wrong.
  static Result<Image> parse(std::span<const std::byte> bytes, ImageKind kind,
                             const ImageLayout* expected = nullptr);

  const ImageLayout& layout() const { return layout_; }  // empty while tokens() is 0
  std::uint32_t tokens() const { return rows_.cells; }
  std::uint32_t streams() const { return rows_.streams; }
  std::int32_t sequence() const { return sequence_; }
  // Of the token at `index`, counted from the first in the image. Ascending; without extensions without gaps.
  std::int32_t position(std::uint32_t index) const;

  // The rows [from, to), by index in the image. Errors: `image-range`.
  Result<Rows> cut(std::uint32_t from, std::uint32_t to) const;
  // The same in parts of at most kPartTokens.
  Result<std::vector<Part>> cut_parts(std::uint32_t from, std::uint32_t to) const;
  // Window or state at the image's end; nothing for plain images.
  std::optional<Checkpoint> checkpoint() const;

 private:
  friend Result<Checkpoint> parse_checkpoint(std::span<const std::byte>, ImageKind);
  struct Section {
    std::uint32_t streams = 0, cells = 0;
    std::size_t meta = 0;                   // offset of the first cell
    std::vector<std::size_t> keys, values;  // offsets of the layers' payload
    std::vector<std::uint32_t> order;       // cells by position; empty: they already are
  };
  static std::optional<Section> parse_section(std::span<const std::byte> bytes, std::size_t& at,
                                              RowLayout& layout, std::uint32_t extension, bool with_values,
                                              const char*& trouble);
  std::optional<Section> parse_sections(std::span<const std::byte> bytes, ImageKind kind,
                                        const char*& trouble);
  Rows gather(const Section& section, const RowLayout& layout, std::uint32_t from, std::uint32_t to) const;

  std::span<const std::byte> bytes_, state_;
  ImageLayout layout_;
  std::int32_t sequence_ = 0;
  Section rows_, window_;
};

// The checkpoint in an image that was exported with PARTIAL_ONLY (no rows). Errors: `image-invalid`.
Result<Checkpoint> parse_checkpoint(std::span<const std::byte> partial_image, ImageKind kind);

// Tokens [from, to) of a part.
struct Piece {
  Part part;
  std::uint32_t from = 0, to = 0;
  std::uint32_t tokens() const { return to - from; }
};

// Those tokens as a part of their own; the part itself when they are all of it.
Part slice(const RowLayout& layout, const Piece& piece);

// Where an image will be imported: the context's number of streams, and a sequence (the library ignores
// which).
struct ImageTarget {
  std::uint32_t streams = 1;
  std::int32_t sequence = 0;
};

// Bytes of the image that compose_image() writes.
Bytes composed_bytes(const ImageLayout& layout, ImageTarget target, std::uint64_t tokens,
                     const Checkpoint* checkpoint);
// Writes an image of the pieces in order, which must begin at position 0 and continue each other, into `out`,
// and returns its size: what llama_state_seq_set_data_ext() has to return. Touches no context: may run on any
// thread. A `whole` checkpoint is copied as it is and takes no pieces. Errors: `image-range` (pieces that do
// not fit together or the layout, a missing checkpoint, `out` too small).
Result<Bytes> compose_image(const ImageLayout& layout, ImageTarget target, std::span<const Piece> pieces,
                            const Checkpoint* checkpoint, std::span<std::byte> out);
// The same for an import with PARTIAL_ONLY: window or state alone.
Result<Buffer> compose_checkpoint(const ImageLayout& layout, ImageTarget target,
                                  const Checkpoint& checkpoint);

// V row by row, whatever the context's own order is: how the disk keeps it, so that flash attention on or off
// reads the same records. In place, but for one layer of V at a time.
RowLayout row_major(RowLayout layout);
Rows to_row_major(const RowLayout& layout, Rows rows);
Rows from_row_major(const RowLayout& layout, Rows rows);

// Tokens [from, to) of `bytes`, which are Rows of `tokens`.
struct RowRange {
  std::span<const std::byte> bytes;
  std::uint32_t tokens = 0, from = 0, to = 0;
};
// Hands the bytes of to_row_major() of these tokens to `visit`, in order and without a copy of them: only one
// layer of V is copied at a time, where it is transposed.
void visit_row_major(const RowLayout& layout, const RowRange& rows,
                     const std::function<void(std::span<const std::byte>)>& visit);
// What that and the two above take beside the rows.
Bytes row_major_scratch(const RowLayout& layout, std::uint64_t tokens);

}  // namespace gezel::kvcache
