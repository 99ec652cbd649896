// kvcache/test_record.h
//
// For tests: records of sequences whose rows say which sequence they belong to.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "kvcache/record.h"
#include "kvcache/test_tree.h"

namespace gezel::kvcache {

inline Digest digest(int value) {
  Digest result{};
  result[0] = std::byte(value);
  return result;
}

inline std::vector<Key> head_of(const std::vector<Key>& keys, std::ptrdiff_t count) {
  return {keys.begin(), keys.begin() + count};
}

inline RecordHeader header_of(const std::vector<Key>& path, std::uint32_t start, Mode mode = Mode::full) {
  RecordHeader header;
  header.fingerprint = digest(1);
  header.parent = prefix_hash(kTestDomain, std::span(path).first(start));
  header.own = prefix_hash(kTestDomain, path);
  header.tags = {11, 12};
  header.start = start;
  header.end = static_cast<std::uint32_t>(path.size());
  header.position_end = static_cast<std::int32_t>(path.size());
  header.cls = Class::user;
  header.mode = mode;
  header.keys.assign(path.begin() + start, path.end());
  return header;
}

// Three parts of rows: 40, 30 and 30 tokens.
inline EncodedRecord encoded(const std::vector<Key>& path, std::uint32_t start,
                             std::shared_ptr<const Checkpoint> checkpoint = nullptr) {
  std::vector<Piece> pieces;
  const auto size = static_cast<std::uint32_t>(path.size());
  for (std::uint32_t at = start; at < size;) {
    const std::uint32_t next = std::min(at + (at == start ? 40 : 30), size);
    pieces.push_back({test_part(std::span(path).first(next), at), 0, next - at});
    at = next;
  }
  auto record = encode_record(header_of(path, start, checkpoint != nullptr ? Mode::hybrid : Mode::full),
                              test_layout(), pieces, checkpoint);
  EXPECT_TRUE(record) << record.error().message;
  return record.value_or(EncodedRecord{});
}

inline Buffer file_of(EncodedRecord record) {
  Buffer bytes(record.bytes(), std::byte{0});
  EXPECT_TRUE(write_record(record, [&](std::uint64_t offset, std::span<const std::byte> piece) -> Result<> {
    std::ranges::copy(piece, bytes.begin() + static_cast<std::ptrdiff_t>(offset));
    return {};
  }));
  return bytes;
}

inline Part part_of(const EncodedRecord& record, std::size_t index) {
  return slice(record.layout.rows, record.rows[index]);
}

}  // namespace gezel::kvcache
