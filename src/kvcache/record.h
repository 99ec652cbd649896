// kvcache/record.h
//
// One node of the tree as a file (spec 40 section 11.10). Little-endian:
//
//   "GKVS", u16 version, u16 flags; u32 header bytes, u32 CRC-32C of the header with this field 0
//   fingerprint 32; prefix hash at `start` 32, at `end` 32
//   u8 tags, u8 shared, u8 pinned, u8 0; u64 per tag
//   u32 start, u32 end, i32 position at `end`, u8 class, u8 mode, u16 0
//   u32 parts, u32 tokens; per part u32 tokens, u64 bytes, XXH3-128 (canonical, 16)
//   keys: u32 each, or u64 each when one of them is media
//   the parts, each at a multiple of 64 bytes: Rows with V row by row; a part without tokens is the
//   checkpoint
//
// Pure: bytes in, bytes out; any bytes are safe to read.
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "kvcache/image.h"
#include "kvcache/keys.h"
#include "kvcache/mode.h"
#include "kvcache/tree.h"

namespace gezel::kvcache {

inline constexpr std::uint32_t kMaxRecordHeader = 64 * 1024 * 1024;
inline constexpr std::uint32_t kRecordStart = 16;  // bytes that say how long the header is

struct RecordHeader {
  Digest fingerprint{}, parent{}, own{};
  std::vector<std::uint64_t> tags;
  bool shared = false, pinned = false;
  std::uint32_t start = 0, end = 0;
  std::int32_t position_end = 0;
  Class cls = Class::tail;
  Mode mode = Mode::full;
  std::vector<Key> keys;  // of [start, end)

  // Filled by encoding and reading.
  struct PartEntry {
    std::uint32_t tokens = 0;  // 0: the checkpoint
    std::uint64_t bytes = 0;
    std::array<std::byte, 16> checksum{};
  };
  std::vector<PartEntry> parts;
  std::uint32_t header_bytes = 0;

  bool has_checkpoint() const { return !parts.empty() && parts.back().tokens == 0; }
  std::uint64_t offset(std::size_t part) const;
  std::uint64_t file_bytes() const;
};

// A record ready to be written. Its rows and checkpoint stay the tree's: what the file has in another order
// is made while it is written, a layer at a time, so that a write takes no memory worth counting.
struct EncodedRecord {
  RecordHeader header;  // without checksums until it was written
  ImageLayout layout;
  std::vector<Piece> rows;  // one for each part
  std::shared_ptr<const Checkpoint> checkpoint;
  Bytes bytes() const { return header.file_bytes(); }
};
// `rows`: of [start, end), in the context's layout; none for recurrent models. Errors: `record-invalid` (rows
// and header do not fit).
Result<EncodedRecord> encode_record(RecordHeader header, const ImageLayout& layout,
                                    std::span<const Piece> rows,
                                    std::shared_ptr<const Checkpoint> checkpoint);
// The header of a node's record: its range, or for recurrent models its whole path.
RecordHeader record_header(const Tree& tree, NodeId id, const Digest& fingerprint, Mode mode);
// What the tree keeps of a record that was written.
DiskRef disk_ref(const EncodedRecord& record);
// Hands the file's bytes to `sink`, each with its place in the file; the header, which has the checksums,
// comes last. What lies between parts is zero. Call it on the I/O thread.
using RecordSink = std::function<Result<>(std::uint64_t offset, std::span<const std::byte> bytes)>;
Result<> write_record(EncodedRecord& record, const RecordSink& sink);

// Where a header says whether its node is pinned, and how to say something else: the bytes of the file from
// `offset` on, with the checksum that follows from it. They lie in the file's first sector, so that one write
// changes all of them or none. `header`: the whole header as it is. Errors: `record-invalid`.
struct PinChange {
  std::uint64_t offset = 0;
  std::vector<std::byte> bytes;
};
Result<PinChange> change_pin(std::span<const std::byte> header, bool pinned);

// How long the header is, from the first kRecordStart bytes. Errors: `record-invalid`.
Result<std::uint32_t> record_header_bytes(std::span<const std::byte> start);
// Errors: `record-invalid` (no record, another version, a checksum, a field out of range).
Result<RecordHeader> parse_record_header(std::span<const std::byte> header);
// One part as the file has it, checked and in the context's layout. Errors: `record-invalid`.
Result<Part> decode_part(const RecordHeader& header, std::size_t part, const RowLayout& layout, Buffer bytes);
// The same for the checkpoint.
Result<Checkpoint> decode_checkpoint(const RecordHeader& header, const ImageLayout& layout, Buffer bytes);

std::uint32_t crc32c(std::span<const std::byte> bytes);
std::array<std::byte, 16> xxh3_128(std::span<const std::byte> bytes);

}  // namespace gezel::kvcache
