#include "kvcache/record.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/crc.hpp>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "kvcache/bytes_io.h"

namespace gezel::kvcache {
namespace {

constexpr std::array<char, 4> kMagic{'G', 'K', 'V', 'S'};
constexpr std::uint16_t kVersion = 1;
constexpr std::uint16_t kPartialState = 1, kSparse = 2, kWideKeys = 4;  // flags
constexpr std::size_t kCrcAt = 12;
constexpr std::size_t kPinnedAt =
    16 + 3 * sizeof(Digest) + 2;  // behind the digests, the tags' number and `shared`
constexpr std::uint64_t kAlignment = 64;
constexpr std::size_t kPartEntryBytes = 28;
constexpr std::size_t kCheckpointHeader = 8;  // u8 kind, 3 × 0, u32 tokens of the window

std::uint64_t aligned(std::uint64_t at) {
  return (at + kAlignment - 1) / kAlignment * kAlignment;
}

std::unexpected<Error> invalid(std::string_view what) {
  return fail(ErrorKind::corrupt, "record-invalid", fmt::format("The cache record is not usable: {}.", what));
}

bool fits(const ImageLayout& layout, const Checkpoint& window) {
  return layout.window && window.window_tokens > 0 &&
         window.bytes.size() == window.window_tokens * layout.window->token_bytes();
}

std::array<std::byte, 16> canonical(XXH128_hash_t hash) {
  XXH128_canonical_t bytes;
  XXH128_canonicalFromHash(&bytes, hash);
  std::array<std::byte, 16> result;
  std::memcpy(result.data(), bytes.digest, result.size());
  return result;
}

// The bytes of one part on their way into the file, and their checksum.
class PartWriter {
 public:
  PartWriter(std::uint64_t at, const RecordSink& sink) : at_(at), sink_(sink) {
    XXH3_INITSTATE(&state_);
    XXH3_128bits_reset(&state_);
  }
  void write(ByteSpan bytes) {
    if (!result_) return;
    XXH3_128bits_update(&state_, bytes.data(), bytes.size());
    result_ = sink_(at_, bytes);
    at_ += bytes.size();
  }
  const Result<>& result() const { return result_; }
  std::array<std::byte, 16> checksum() const { return canonical(XXH3_128bits_digest(&state_)); }

 private:
  std::uint64_t at_;
  const RecordSink& sink_;
  XXH3_state_t state_;
  Result<> result_;
};

std::vector<std::byte> encode_header(const RecordHeader& header) {
  std::vector<std::byte> bytes;
  ByteWriter out(bytes);
  const bool wide = std::any_of(header.keys.begin(), header.keys.end(), is_media);
  const auto flags =
      static_cast<std::uint16_t>((header.has_checkpoint() ? kPartialState : 0) | (wide ? kWideKeys : 0));
  out.write(kMagic);
  out.write(kVersion);
  out.write(flags);
  out.write(std::uint32_t{0});
  out.write(std::uint32_t{0});
  out.write(header.fingerprint);
  out.write(header.parent);
  out.write(header.own);
  out.write(static_cast<std::uint8_t>(header.tags.size()));
  out.write(static_cast<std::uint8_t>(header.shared));
  out.write(static_cast<std::uint8_t>(header.pinned));
  out.write(std::uint8_t{0});
  for (const std::uint64_t tag : header.tags) out.write(tag);
  out.write(header.start);
  out.write(header.end);
  out.write(header.position_end);
  out.write(header.cls);
  out.write(header.mode);
  out.write(std::uint16_t{0});
  out.write(static_cast<std::uint32_t>(header.parts.size()));
  out.write(static_cast<std::uint32_t>(header.keys.size()));
  for (const RecordHeader::PartEntry& part : header.parts) {
    out.write(part.tokens);
    out.write(part.bytes);
    out.write(part.checksum);
  }
  for (const Key key : header.keys) {
    if (wide) {
      out.write(key);
    } else {
      out.write(static_cast<std::uint32_t>(key));
    }
  }
  const auto size = static_cast<std::uint32_t>(bytes.size());
  std::memcpy(bytes.data() + 8, &size, sizeof(size));
  const std::uint32_t crc = crc32c(bytes);
  std::memcpy(bytes.data() + kCrcAt, &crc, sizeof(crc));
  return bytes;
}

}  // namespace

std::uint32_t crc32c(ByteSpan bytes) {
  boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> crc;
  crc.process_bytes(bytes.data(), bytes.size());
  return crc.checksum();
}

std::array<std::byte, 16> xxh3_128(ByteSpan bytes) {
  return canonical(XXH3_128bits(bytes.data(), bytes.size()));
}

std::uint64_t RecordHeader::offset(std::size_t part) const {
  std::uint64_t at = aligned(header_bytes);
  for (std::size_t i = 0; i < part; ++i) at = aligned(at + parts[i].bytes);
  return at;
}

std::uint64_t RecordHeader::file_bytes() const {
  return parts.empty() ? header_bytes : offset(parts.size() - 1) + parts.back().bytes;
}

Result<EncodedRecord> encode_record(RecordHeader header, const ImageLayout& layout,
                                    std::span<const Piece> rows,
                                    std::shared_ptr<const Checkpoint> checkpoint) {
  header.parts.clear();
  std::uint64_t tokens = 0;
  for (const Piece& piece : rows) {
    if (!piece.part || piece.from >= piece.to || piece.to > piece.part->tokens ||
        piece.part->bytes.size() != piece.part->tokens * layout.rows.token_bytes())
      return invalid("a piece lies outside its part, or the part has another layout");
    header.parts.push_back(
        {.tokens = piece.tokens(), .bytes = piece.tokens() * layout.rows.token_bytes(), .checksum = {}});
    tokens += piece.tokens();
  }
  if (header.end <= header.start || header.keys.size() != header.end - header.start ||
      (keeps_rows(header.mode) ? tokens != header.keys.size() : tokens != 0))
    return invalid("its rows, keys and range have different lengths");
  if (header.tags.size() > kMaxTags) return invalid("it has more than 8 tags");
  if (rows.empty() && !checkpoint) return invalid("it holds nothing");
  if (checkpoint) {
    if (checkpoint->kind == Checkpoint::Kind::window && !fits(layout, *checkpoint))
      return invalid("its window has another layout");
    header.parts.push_back(
        {.tokens = 0, .bytes = kCheckpointHeader + checkpoint->bytes.size(), .checksum = {}});
  }
  const std::size_t size = encode_header(header).size();
  if (size > kMaxRecordHeader) return invalid("its header is larger than 64 MiB");
  header.header_bytes = static_cast<std::uint32_t>(size);
  return EncodedRecord{.header = std::move(header),
                       .layout = layout,
                       .rows = {rows.begin(), rows.end()},
                       .checkpoint = std::move(checkpoint)};
}

RecordHeader record_header(const Tree& tree, NodeId id, const Digest& fingerprint, Mode mode) {
  RecordHeader header;
  const Node* node = tree.find(id);
  if (node == nullptr) return header;
  const std::vector<Key> path = tree.path_keys(id);
  header.fingerprint = fingerprint;
  header.mode = mode;
  header.start = keeps_rows(mode) ? node->start : 0;
  header.end = node->end;
  header.keys.assign(path.begin() + header.start, path.end());
  header.parent = prefix_hash(node->domain, std::span(path).first(header.start));
  header.own = prefix_hash(node->domain, path);
  header.tags = node->tags;
  header.shared = node->shared;
  header.pinned = tree.pinned_here(id);
  header.cls = node->cls;
  header.position_end = static_cast<std::int32_t>(node->end);
  if (!node->rows.empty()) {
    const Piece& last = node->rows.back();
    header.position_end = last.part->position(last.to - 1) + 1;
  }
  return header;
}

DiskRef disk_ref(const EncodedRecord& record) {
  return std::make_shared<DiskRecord>(DiskRecord{.id = record.header.own,
                                                 .start = record.header.start,
                                                 .end = record.header.end,
                                                 .bytes = record.bytes(),
                                                 .checkpoint = record.header.has_checkpoint()});
}

Result<> write_record(EncodedRecord& record, const RecordSink& sink) {
  RecordHeader& header = record.header;
  for (std::size_t i = 0; i < header.parts.size(); ++i) {
    PartWriter out(header.offset(i), sink);
    const auto pass = [&](ByteSpan bytes) { out.write(bytes); };
    if (i < record.rows.size()) {
      const Piece& piece = record.rows[i];
      visit_row_major(record.layout.rows, {piece.part->bytes, piece.part->tokens, piece.from, piece.to},
                      pass);
    } else {
      const Checkpoint& checkpoint = *record.checkpoint;
      const std::array<std::uint32_t, 2> kind{static_cast<std::uint32_t>(checkpoint.kind),
                                              checkpoint.window_tokens};
      pass(std::as_bytes(std::span(kind)));
      if (checkpoint.kind == Checkpoint::Kind::window) {
        visit_row_major(*record.layout.window,
                        {checkpoint.bytes, checkpoint.window_tokens, 0, checkpoint.window_tokens}, pass);
      } else {
        pass(checkpoint.bytes);
      }
    }
    GEZEL_CHECK(out.result());
    header.parts[i].checksum = out.checksum();
  }
  return sink(0, encode_header(header));
}

Result<PinChange> change_pin(ByteSpan header, bool pinned) {
  GEZEL_CHECK(parse_record_header(header));
  std::vector<std::byte> changed(header.begin(), header.end());
  changed[kPinnedAt] = std::byte{pinned};
  std::fill_n(changed.begin() + kCrcAt, sizeof(std::uint32_t), std::byte{0});
  const std::uint32_t crc = crc32c(changed);
  std::memcpy(changed.data() + kCrcAt, &crc, sizeof(crc));
  return PinChange{.offset = kCrcAt, .bytes = {changed.begin() + kCrcAt, changed.begin() + kPinnedAt + 1}};
}

Result<std::uint32_t> record_header_bytes(ByteSpan start) {
  ByteReader in(start);
  const auto magic = in.read<std::array<char, 4>>();
  const auto version = in.read<std::uint16_t>();
  in.read<std::uint16_t>();
  const auto size = in.read<std::uint32_t>();
  if (!in.ok() || magic != kMagic) return invalid("it does not begin with GKVS");
  if (version != kVersion)
    return invalid(fmt::format("its version is {}, this program reads {}", version, kVersion));
  if (size < kRecordStart || size > kMaxRecordHeader)
    return invalid("its header's length is not 16 B to 64 MiB");
  return size;
}

Result<RecordHeader> parse_record_header(ByteSpan bytes) {
  GEZEL_TRY(const std::uint32_t size, record_header_bytes(bytes));
  if (size != bytes.size()) return invalid("its header is cut short");
  std::vector<std::byte> zeroed(bytes.begin(), bytes.end());
  std::fill_n(zeroed.begin() + kCrcAt, 4, std::byte{0});
  ByteReader in(bytes);
  in.take(6);
  const auto flags = in.read<std::uint16_t>();
  in.take(4);
  if (in.read<std::uint32_t>() != crc32c(zeroed)) return invalid("its header's checksum is wrong");
  if (flags & ~(kPartialState | kSparse | kWideKeys)) return invalid("it has unknown flags");
  RecordHeader header;
  header.header_bytes = size;
  header.fingerprint = in.read<Digest>();
  header.parent = in.read<Digest>();
  header.own = in.read<Digest>();
  const auto tags = in.read<std::uint8_t>();
  header.shared = in.read<std::uint8_t>() != 0;
  header.pinned = in.read<std::uint8_t>() != 0;
  in.take(1);
  if (tags > kMaxTags) return invalid("it has more than 8 tags");
  for (int i = 0; i < tags; ++i) header.tags.push_back(in.read<std::uint64_t>());
  header.start = in.read<std::uint32_t>();
  header.end = in.read<std::uint32_t>();
  header.position_end = in.read<std::int32_t>();
  const auto cls = in.read<std::uint8_t>(), mode = in.read<std::uint8_t>();
  in.take(2);
  if (cls > static_cast<std::uint8_t>(Class::tail) || mode >= static_cast<std::uint8_t>(Mode::none))
    return invalid("its class or mode is unknown");
  header.cls = static_cast<Class>(cls);
  header.mode = static_cast<Mode>(mode);
  const auto parts = in.read<std::uint32_t>();
  const auto tokens = in.read<std::uint32_t>();
  const std::size_t key_bytes = flags & kWideKeys ? 8 : 4;
  if (!in.ok() || in.left() != std::uint64_t{parts} * kPartEntryBytes + std::uint64_t{tokens} * key_bytes)
    return invalid("its tables do not have the length of its header");
  if (header.start >= header.end || header.end - header.start != tokens || parts == 0)
    return invalid("its range and its number of tokens differ");
  header.parts.reserve(parts);
  std::uint64_t part_tokens = 0, bytes_total = 0;
  for (std::uint32_t i = 0; i < parts; ++i) {
    RecordHeader::PartEntry part;
    part.tokens = in.read<std::uint32_t>();
    part.bytes = in.read<std::uint64_t>();
    part.checksum = in.read<std::array<std::byte, 16>>();
    part_tokens += part.tokens;
    if (part.bytes == 0 || part.bytes > (std::uint64_t{1} << 40))
      return invalid("a part is empty or above 1 TiB");
    bytes_total += part.bytes;
    if (part.tokens == 0 && i + 1 != parts) return invalid("its checkpoint is not the last part");
    header.parts.push_back(part);
  }
  if (bytes_total > (std::uint64_t{1} << 40)) return invalid("its parts have more than 1 TiB");
  if (part_tokens != (keeps_rows(header.mode) ? tokens : 0) ||
      header.has_checkpoint() != ((flags & kPartialState) != 0))
    return invalid("its parts do not hold its tokens");
  header.keys.reserve(tokens);
  for (std::uint32_t i = 0; i < tokens; ++i)
    header.keys.push_back(key_bytes == 8 ? in.read<Key>() : in.read<std::uint32_t>());
  return header;
}

Result<Part> decode_part(const RecordHeader& header, std::size_t index, const RowLayout& layout,
                         Buffer bytes) {
  if (index >= header.parts.size() || header.parts[index].tokens == 0) return invalid("it has no such part");
  const RecordHeader::PartEntry& part = header.parts[index];
  if (part.bytes != bytes.size() || part.bytes != part.tokens * layout.token_bytes())
    return invalid("a part does not have the size of this context's rows");
  if (xxh3_128(bytes) != part.checksum) return invalid("a part's checksum is wrong");
  Rows rows{.tokens = part.tokens, .bytes = std::move(bytes)};
  return std::make_shared<const Rows>(from_row_major(layout, std::move(rows)));
}

Result<Checkpoint> decode_checkpoint(const RecordHeader& header, const ImageLayout& layout, Buffer bytes) {
  if (!header.has_checkpoint()) return invalid("it has no checkpoint");
  const RecordHeader::PartEntry& part = header.parts.back();
  if (part.bytes != bytes.size() || xxh3_128(bytes) != part.checksum)
    return invalid("its checkpoint's checksum is wrong");
  ByteReader in(bytes);
  Checkpoint checkpoint;
  const auto kind = in.read<std::uint32_t>();
  checkpoint.window_tokens = in.read<std::uint32_t>();
  if (!in.ok() || kind < 1 || kind > 3) return invalid("its checkpoint is of an unknown kind");
  checkpoint.kind = static_cast<Checkpoint::Kind>(kind);
  bytes.erase(bytes.begin(), bytes.begin() + kCheckpointHeader);
  checkpoint.bytes = std::move(bytes);
  if (checkpoint.kind == Checkpoint::Kind::window) {
    if (!fits(layout, checkpoint)) return invalid("its window does not have the size of this context's");
    checkpoint.bytes =
        from_row_major(*layout.window, {checkpoint.window_tokens, std::move(checkpoint.bytes)}).bytes;
  }
  return checkpoint;
}

}  // namespace gezel::kvcache
