// The library does not say how an image is to be read: whether cells have an extension and whether layers
// have V depends on the model. The few combinations are tried; the one that ends at the last byte is right,
// because a wrong one would have to meet the lengths of every layer by chance.
#include "kvcache/image.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "kvcache/bytes_io.h"

namespace gezel::kvcache {
namespace {

constexpr std::uint32_t kMagic = 0xaf143cd8;   // io_magic in src/llama-context.cpp
constexpr std::uint32_t kExtensionBytes = 12;  // llama_kv_cell_ext
constexpr std::uint32_t kMaxStreams = 256;     // LLAMA_MAX_SEQ
constexpr std::uint32_t kMaxLayers = 4096;

template <class T>
T load(ByteSpan bytes, std::size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

std::unexpected<Error> invalid(std::string_view what) {
  return fail(ErrorKind::corrupt, "image-invalid",
              fmt::format("The sequence image cannot be taken apart: {}.", what));
}

// Recurrent layers: u32 cells; per cell i32 position, u32 0; u32 transposed, u32 layers; then per layer with
// a tensor i32 type, u64 row bytes, rows. Which layers have one is the model's matter.
bool is_state(ByteSpan bytes) {
  ByteReader reader(bytes);
  const auto cells = reader.read<std::uint32_t>();
  reader.skip(cells, 8);
  const auto transposed = reader.read<std::uint32_t>();
  const auto layers = reader.read<std::uint32_t>();
  if (!reader.ok() || cells == 0 || transposed != 0 || layers == 0 || layers > kMaxLayers) return false;
  for (std::uint32_t tensors = 0; !reader.at_end(); ++tensors) {
    reader.read<std::int32_t>();
    reader.skip(cells, reader.read<std::uint64_t>());
    if (!reader.ok() || tensors >= 2 * layers) return false;
  }
  return true;
}

}  // namespace

Bytes RowLayout::token_bytes() const {
  Bytes sum = sizeof(std::int32_t) + extension_bytes;
  for (const LayerLayout& layer : keys) sum += layer.row_bytes;
  for (const LayerLayout& layer : values) sum += layer.row_bytes;
  return sum;
}

std::int32_t Rows::position(std::uint32_t token) const {
  return load<std::int32_t>(bytes, std::size_t{token} * sizeof(std::int32_t));
}

std::optional<Image::Section> Image::parse_section(ByteSpan bytes, std::size_t& at, RowLayout& layout,
                                                   std::uint32_t extension, bool with_values,
                                                   const char*& trouble) {
  ByteReader reader(bytes.subspan(at));
  const auto wrong = [&](const char* what) {
    trouble = what;
    return std::nullopt;
  };
  layout = RowLayout{.extension_bytes = extension};
  Section section;
  section.streams = reader.read<std::uint32_t>();
  if (!reader.ok() || section.streams == 0 || section.streams > kMaxStreams)
    return wrong("the number of streams is not 1 to 256");
  for (std::uint32_t stream = 0; stream < section.streams; ++stream) {
    const auto cells = reader.read<std::uint32_t>();
    if (!reader.ok()) return wrong("it ends within the streams");
    if (cells == 0) continue;
    if (section.cells > 0) return wrong("two streams hold cells of one sequence");
    section.cells = cells;
    section.meta = at + reader.at();
    reader.skip(cells, 12 + extension);
    if (!reader.ok()) return wrong("it ends within the cells");
    const auto transposed = reader.read<std::uint32_t>();
    const auto layers = reader.read<std::uint32_t>();
    if (!reader.ok() || transposed > 1 || layers == 0 || layers > kMaxLayers)
      return wrong("the number of layers is not 1 to 4096");
    layout.values_transposed = transposed == 1;
    for (std::uint32_t i = 0; i < layers; ++i) {
      LayerLayout layer{.type = reader.read<std::int32_t>(), .row_bytes = reader.read<std::uint64_t>()};
      section.keys.push_back(at + reader.at());
      reader.skip(cells, layer.row_bytes);
      if (!reader.ok() || layer.row_bytes == 0) return wrong("it ends within the K rows");
      layout.keys.push_back(layer);
    }
    for (std::uint32_t i = 0; with_values && i < layers; ++i) {
      LayerLayout layer{.type = reader.read<std::int32_t>()};
      if (layout.values_transposed) {
        layer.element_bytes = reader.read<std::uint32_t>();
        layer.elements = reader.read<std::uint32_t>();
        layer.row_bytes = std::uint64_t{layer.element_bytes} * layer.elements;
      } else {
        layer.row_bytes = reader.read<std::uint64_t>();
      }
      section.values.push_back(at + reader.at());
      reader.skip(cells, layer.row_bytes);
      if (!reader.ok() || layer.row_bytes == 0) return wrong("it ends within the V rows");
      layout.values.push_back(layer);
    }
  }

  bool ascending = true;
  std::int32_t before = -1;
  const auto cell_at = [&](std::uint32_t cell) {
    return section.meta + std::size_t{cell} * (12 + extension);
  };
  for (std::uint32_t cell = 0; cell < section.cells; ++cell) {
    const auto position = load<std::int32_t>(bytes, cell_at(cell));
    if (position < 0) return wrong("a position is negative");
    if (load<std::uint32_t>(bytes, cell_at(cell) + 4) != 1) return wrong("a cell has not exactly one owner");
    ascending = ascending && position >= before;
    before = position;
  }
  if (!ascending) {
    section.order.resize(section.cells);
    std::iota(section.order.begin(), section.order.end(), 0);
    std::sort(section.order.begin(), section.order.end(), [&](std::uint32_t x, std::uint32_t y) {
      return std::pair(load<std::int32_t>(bytes, cell_at(x)), x) <
             std::pair(load<std::int32_t>(bytes, cell_at(y)), y);
    });
  }
  at += reader.at();
  return section;
}

std::optional<Image::Section> Image::parse_sections(ByteSpan bytes, ImageKind kind, const char*& trouble) {
  for (const std::uint32_t extension : {0U, kExtensionBytes}) {
    for (const bool with_values : {true, false}) {
      std::size_t at = 8;
      auto section = parse_section(bytes, at, layout_.rows, extension, with_values, trouble);
      if (!section) continue;
      bool whole = false;
      switch (kind) {
        case ImageKind::plain:
          whole = at == bytes.size();
          break;
        case ImageKind::window: {
          RowLayout layout;
          auto window = parse_section(bytes, at, layout, extension, with_values, trouble);
          whole = window && at == bytes.size() && (window->cells > 0) == (section->cells > 0);
          if (whole) {
            window->order.clear();  // cells keep the order they have: the image comes back byte for byte
            layout_.window = std::move(layout);
            window_ = std::move(*window);
          }
          break;
        }
        case ImageKind::state:
          whole = section->cells > 0 && is_state(bytes.subspan(at));
          if (whole) state_ = bytes.subspan(at);
          break;
      }
      if (whole) return section;
      trouble = "bytes are left over or missing at its end";
    }
  }
  return std::nullopt;
}

Result<Image> Image::parse(ByteSpan bytes, ImageKind kind, const ImageLayout* expected) {
  ByteReader reader(bytes);
  const auto magic = reader.read<std::uint32_t>();
  Image image;
  image.bytes_ = bytes;
  image.sequence_ = reader.read<std::int32_t>();
  if (!reader.ok() || magic != kMagic) return invalid("it does not begin with the library's mark");
  const char* trouble = "";
  auto section = image.parse_sections(bytes, kind, trouble);
  if (!section) return invalid(trouble);
  image.rows_ = std::move(*section);
  if (expected != nullptr && image.tokens() > 0 && image.layout_ != *expected)
    return invalid("its layers are not those of this context");
  // Without an extension a token is its position; a hole would shift every row behind it.
  if (image.tokens() > 0 && image.layout_.rows.extension_bytes == 0) {
    const std::int64_t first = image.position(0);
    for (std::uint32_t i = 0; i < image.tokens(); ++i) {
      if (image.position(i) != first + i) return invalid("its positions have a hole or a repetition");
    }
  }
  return image;
}

std::int32_t Image::position(std::uint32_t index) const {
  const std::uint32_t cell = rows_.order.empty() ? index : rows_.order[index];
  return load<std::int32_t>(bytes_, rows_.meta + std::size_t{cell} * (12 + layout_.rows.extension_bytes));
}

Rows Image::gather(const Section& section, const RowLayout& layout, std::uint32_t from,
                   std::uint32_t to) const {
  const std::size_t count = to - from;
  Rows rows{.tokens = static_cast<std::uint32_t>(count)};
  rows.bytes.resize(count * layout.token_bytes());
  std::byte* out = rows.bytes.data();
  // `size` bytes of every wanted cell from an array with one entry per cell.
  const auto copy = [&](std::size_t base, std::size_t stride, std::size_t size) {
    if (section.order.empty() && stride == size) {
      std::memcpy(out, bytes_.data() + base + from * size, count * size);
      out += count * size;
      return;
    }
    for (std::uint32_t i = from; i < to; ++i, out += size) {
      const std::size_t cell = section.order.empty() ? i : section.order[i];
      std::memcpy(out, bytes_.data() + base + cell * stride, size);
    }
  };
  const std::size_t cell_bytes = 12 + layout.extension_bytes;
  copy(section.meta, cell_bytes, sizeof(std::int32_t));
  if (layout.extension_bytes > 0) copy(section.meta + 8, cell_bytes, layout.extension_bytes);
  for (std::size_t i = 0; i < layout.keys.size(); ++i)
    copy(section.keys[i], layout.keys[i].row_bytes, layout.keys[i].row_bytes);
  for (std::size_t i = 0; i < layout.values.size(); ++i) {
    const LayerLayout& layer = layout.values[i];
    if (!layout.values_transposed) {
      copy(section.values[i], layer.row_bytes, layer.row_bytes);
      continue;
    }
    for (std::size_t element = 0; element < layer.elements; ++element)
      copy(section.values[i] + element * section.cells * layer.element_bytes, layer.element_bytes,
           layer.element_bytes);
  }
  return rows;
}

Result<Rows> Image::cut(std::uint32_t from, std::uint32_t to) const {
  if (from >= to || to > tokens()) {
    return fail(ErrorKind::internal, "image-range",
                fmt::format("Rows {} to {} were asked of an image of {} tokens.", from, to, tokens()));
  }
  return gather(rows_, layout_.rows, from, to);
}

Result<std::vector<Part>> Image::cut_parts(std::uint32_t from, std::uint32_t to) const {
  std::vector<Part> parts;
  for (std::uint32_t at = from; at < to; at += kPartTokens) {
    GEZEL_TRY(Rows rows, cut(at, std::min(at + kPartTokens, to)));
    parts.push_back(std::make_shared<const Rows>(std::move(rows)));
  }
  return parts;
}

std::optional<Checkpoint> Image::checkpoint() const {
  if (!state_.empty())
    return Checkpoint{.kind = Checkpoint::Kind::state, .bytes = {state_.begin(), state_.end()}};
  if (window_.cells == 0) return std::nullopt;
  return Checkpoint{.kind = Checkpoint::Kind::window,
                    .window_tokens = window_.cells,
                    .bytes = gather(window_, *layout_.window, 0, window_.cells).bytes};
}

Result<Checkpoint> parse_checkpoint(ByteSpan bytes, ImageKind kind) {
  ByteReader reader(bytes);
  const auto magic = reader.read<std::uint32_t>();
  reader.read<std::int32_t>();
  if (!reader.ok() || magic != kMagic) return invalid("it does not begin with the library's mark");
  if (kind == ImageKind::state) {
    const ByteSpan state = bytes.subspan(8);
    if (!is_state(state)) return invalid("it is not the state of recurrent layers");
    return Checkpoint{.kind = Checkpoint::Kind::state, .bytes = {state.begin(), state.end()}};
  }
  if (kind == ImageKind::plain) return invalid("a plain model has nothing beside its rows");
  // One section is read as an image of rows; a window may begin anywhere and was checked to have no other
  // holes than those of its model.
  Image image;
  image.bytes_ = bytes;
  const char* trouble = "";
  auto section = image.parse_sections(bytes, ImageKind::plain, trouble);
  if (!section || section->cells == 0) return invalid(section ? "it is empty" : trouble);
  section->order.clear();
  return Checkpoint{.kind = Checkpoint::Kind::window,
                    .window_tokens = section->cells,
                    .bytes = image.gather(*section, image.layout_.rows, 0, section->cells).bytes};
}

}  // namespace gezel::kvcache
