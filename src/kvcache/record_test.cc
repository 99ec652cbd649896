#include "kvcache/record.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "kvcache/fingerprint.h"
#include "kvcache/test_image.h"
#include "kvcache/test_record.h"

namespace gezel::kvcache {
namespace {

TEST(Checksums, AreThoseOfTheirDefinitions) {
  EXPECT_EQ(crc32c(std::as_bytes(std::span("123456789", 9))), 0xe3069283U);
  EXPECT_EQ(hex(xxh3_128({})), "99aa06d3014798d86001c324468d497f");
}

TEST(Record, ReadsWhatItWrote) {
  const auto path = counted(150);
  const EncodedRecord record = encoded(path, 50);
  const auto bytes = file_of(record);
  EXPECT_EQ(bytes.size(), record.bytes());
  const auto size = record_header_bytes(bytes);
  ASSERT_TRUE(size);
  const auto header = parse_record_header(std::span(bytes).first(*size));
  ASSERT_TRUE(header) << header.error().message;
  EXPECT_EQ(header->own, record.header.own);
  EXPECT_EQ(header->parent, record.header.parent);
  EXPECT_EQ(header->tags, record.header.tags);
  EXPECT_EQ(header->keys, record.header.keys);
  EXPECT_EQ(header->start, 50U);
  EXPECT_EQ(header->end, 150U);
  EXPECT_EQ(header->cls, Class::user);
  ASSERT_EQ(header->parts.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(header->offset(i) % 64, 0U);
    const auto at = bytes.begin() + static_cast<std::ptrdiff_t>(header->offset(i));
    const auto part = decode_part(*header, i, test_layout().rows,
                                  {at, at + static_cast<std::ptrdiff_t>(header->parts[i].bytes)});
    ASSERT_TRUE(part) << part.error().message;
    EXPECT_EQ((*part)->bytes, part_of(record, i)->bytes);
  }
}

TEST(Record, KeepsMediaKeysWhole) {
  auto path = counted(10);
  path[4] = path[5] = media_key(digest(9), "v1");
  const auto bytes = file_of(encoded(path, 0));
  const auto header = parse_record_header(std::span(bytes).first(*record_header_bytes(bytes)));
  ASSERT_TRUE(header);
  EXPECT_EQ(header->keys, path);
}

TEST(Record, IsTheSameWithFlashAttentionOnAndOff) {
  TestImage shape;
  shape.positions = positions_to(20);
  shape.window_positions = positions_to(20, 14);
  Buffer files[2];
  ImageLayout layouts[2];
  Part parts[2];
  std::shared_ptr<const Checkpoint> windows[2];
  for (const bool transposed : {false, true}) {
    shape.transposed = transposed;
    const auto bytes = shape.bytes();
    const auto image = Image::parse(bytes, ImageKind::window);
    ASSERT_TRUE(image);
    parts[transposed] = std::make_shared<const Rows>(*image->cut(0, 20));
    layouts[transposed] = image->layout();
    windows[transposed] = std::make_shared<const Checkpoint>(*image->checkpoint());
    const std::vector<Piece> pieces = {{parts[transposed], 0, 20}};
    files[transposed] = file_of(*encode_record(header_of(counted(20), 0, Mode::window), layouts[transposed],
                                               pieces, windows[transposed]));
  }
  EXPECT_EQ(files[0], files[1]);
  const auto header = parse_record_header(std::span(files[0]).first(*record_header_bytes(files[0])));
  ASSERT_TRUE(header);
  const auto payload = [&](std::size_t i) {
    const auto at = files[0].begin() + static_cast<std::ptrdiff_t>(header->offset(i));
    return Buffer{at, at + static_cast<std::ptrdiff_t>(header->parts[i].bytes)};
  };
  for (const bool transposed : {false, true}) {
    const auto part = decode_part(*header, 0, layouts[transposed].rows, payload(0));
    ASSERT_TRUE(part);
    EXPECT_EQ((*part)->bytes, parts[transposed]->bytes);
    const auto window = decode_checkpoint(*header, layouts[transposed], payload(1));
    ASSERT_TRUE(window);
    EXPECT_EQ(window->bytes, windows[transposed]->bytes);
  }
}

TEST(Record, MakesNoCopyOfMoreThanALayer) {
  TestImage shape;
  shape.positions = positions_to(20);
  shape.transposed = true;
  const auto bytes = shape.bytes();
  const auto image = Image::parse(bytes, ImageKind::plain);
  ASSERT_TRUE(image);
  const auto part = std::make_shared<const Rows>(*image->cut(0, 20));
  const std::vector<Piece> pieces = {{part, 0, 7}, {part, 7, 20}};
  auto record = encode_record(header_of(counted(20), 0), image->layout(), pieces, nullptr);
  ASSERT_TRUE(record) << record.error().message;
  const std::span<const std::byte> own(part->bytes);
  std::size_t copied = 0;
  ASSERT_TRUE(write_record(*record, [&](std::uint64_t offset, std::span<const std::byte> piece) -> Result<> {
    const bool shared = piece.data() >= own.data() && piece.data() < own.data() + own.size();
    if (offset > 0 && !shared) copied = std::max(copied, piece.size());
    return {};
  }));
  EXPECT_EQ(copied, row_major_scratch(image->layout().rows, 13));
  EXPECT_LT(row_major_scratch(image->layout().rows, 13), 13 * image->layout().rows.token_bytes() / 2);
}

TEST(Record, ItsPinIsChangedInTheFirstSector) {
  auto bytes = file_of(encoded(counted(150), 50));
  const auto size = *record_header_bytes(bytes);
  for (const bool pinned : {true, false}) {
    const auto change = change_pin(std::span(bytes).first(size), pinned);
    ASSERT_TRUE(change) << change.error().message;
    EXPECT_LE(change->offset + change->bytes.size(), 512U);
    std::ranges::copy(change->bytes, bytes.begin() + static_cast<std::ptrdiff_t>(change->offset));
    const auto header = parse_record_header(std::span(bytes).first(size));
    ASSERT_TRUE(header) << header.error().message;
    EXPECT_EQ(header->pinned, pinned);
    EXPECT_EQ(header->keys.size(), 100U);
  }
  EXPECT_FALSE(change_pin(std::span(bytes).first(size - 1), true));
}

TEST(Record, RefusesRowsThatAreNotItsRange) {
  const auto path = counted(20);
  const std::vector<Piece> short_rows = {{test_part(path, 0), 0, 19}};
  EXPECT_FALSE(encode_record(header_of(path, 0), test_layout(), short_rows, nullptr));
  EXPECT_FALSE(encode_record(header_of(path, 0), test_layout(), {}, nullptr));
}

TEST(Fingerprint, ChangesWithEachOfItsFields) {
  const Fingerprint base{.shards = {{10, "aa"}}, .type_k = "f16", .type_v = "f16", .backend = "cpu"};
  std::vector<Fingerprint> all(12, base);
  all[1].shards.push_back({11, "bb"});
  all[2].type_k = "q8_0";
  all[3].full_window_cache = true;
  all[4].rope = "yarn";
  all[5].adapters = "x";
  all[6].projector = "x";
  all[7].rotation_disabled = true;
  all[8].library = "2";
  all[9].mode = Mode::window;
  all[10].opaque = Fingerprint::Opaque{.slots = 4};
  all[11].opaque = Fingerprint::Opaque{.slots = 4, .flash_attention = true};
  std::vector<std::string> folders;
  for (const Fingerprint& fingerprint : all) folders.push_back(folder_name(fingerprint.digest()));
  std::sort(folders.begin(), folders.end());
  EXPECT_EQ(std::unique(folders.begin(), folders.end()), folders.end());
  EXPECT_EQ(folders.front().size(), 24U);
}

}  // namespace
}  // namespace gezel::kvcache
