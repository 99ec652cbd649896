#include "kvcache/image.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "kvcache/test_image.h"

namespace gezel::kvcache {
namespace {

using Bytestring = Buffer;

Image parsed(const Bytestring& bytes, ImageKind kind = ImageKind::plain) {
  auto image = Image::parse(bytes, kind);
  EXPECT_TRUE(image) << image.error().message;
  return image.value_or(Image{});
}

Part cut(const Image& image, std::uint32_t from, std::uint32_t to) {
  auto rows = image.cut(from, to);
  EXPECT_TRUE(rows) << rows.error().message;
  return std::make_shared<const Rows>(rows.value_or(Rows{}));
}

Bytestring composed(const ImageLayout& layout, ImageTarget target, const std::vector<Piece>& pieces,
                    const Checkpoint* checkpoint = nullptr) {
  std::uint64_t tokens = 0;
  for (const Piece& piece : pieces) tokens += piece.tokens();
  Bytestring out(composed_bytes(layout, target, tokens, checkpoint));
  const auto size = compose_image(layout, target, pieces, checkpoint, out);
  EXPECT_TRUE(size) << size.error().message;
  EXPECT_EQ(size.value_or(0), out.size());
  return out;
}

std::string code_of(const auto& result) {
  return result ? "none" : result.error().code;
}

// Every shape a plain image has here.
std::vector<TestImage> shapes() {
  std::vector<TestImage> all;
  for (const bool transposed : {false, true}) {
    for (const bool extension : {false, true}) {
      for (const std::uint32_t elements : {3U, 0U}) {
        TestImage image;
        image.transposed = transposed;
        image.extension = extension;
        image.value_elements = elements;
        image.positions = positions_to(23);
        all.push_back(image);
      }
    }
  }
  return all;
}

TEST(Image, IsExactWhenTakenApartAnywhereAndPutTogether) {
  for (const TestImage& shape : shapes()) {
    const Bytestring bytes = shape.bytes();
    const Image image = parsed(bytes);
    ASSERT_EQ(image.tokens(), 23U);
    for (std::uint32_t a = 1; a < 22; a += 4) {
      for (std::uint32_t b = a + 1; b < 23; b += 5) {
        const std::vector<Piece> pieces = {
            {cut(image, 0, a), 0, a}, {cut(image, a, b), 0, b - a}, {cut(image, b, 23), 0, 23 - b}};
        ASSERT_EQ(composed(image.layout(), {2, 1}, pieces), bytes);
      }
    }
  }
}

TEST(Image, TakesARangeOutOfThePartsOfItsPath) {
  for (const TestImage& shape : shapes()) {
    const Bytestring bytes = shape.bytes();
    const Image image = parsed(bytes);
    TestImage shorter = shape;
    shorter.positions = positions_to(15);
    const std::vector<Piece> pieces = {{cut(image, 0, 12), 0, 10}, {cut(image, 8, 23), 2, 7}};
    EXPECT_EQ(composed(image.layout(), {2, 1}, pieces), shorter.bytes());
  }
}

TEST(Image, ReadsCellsInAnyOrderByTheirPosition) {
  for (TestImage shape : shapes()) {
    const Bytestring ordered = shape.bytes();
    std::mt19937 random(1);
    std::shuffle(shape.positions.begin(), shape.positions.end(), random);
    const Bytestring bytes = shape.bytes();
    const Image image = parsed(bytes);
    EXPECT_EQ(composed(image.layout(), {2, 1}, {{cut(image, 0, 9), 0, 9}, {cut(image, 9, 23), 0, 14}}),
              ordered);
  }
}

TEST(Image, GoesIntoAContextWithAnotherNumberOfSlots) {
  TestImage shape;
  shape.positions = positions_to(5);
  const Bytestring bytes = shape.bytes();
  const Image image = parsed(bytes);
  TestImage other = shape;
  other.streams = 7;
  other.sequence = 4;
  EXPECT_EQ(composed(image.layout(), {7, 4}, {{cut(image, 0, 5), 0, 5}}), other.bytes());
}

TEST(Image, MayBeginLaterWhenTheHostHasTheHead) {
  TestImage shape;
  shape.positions = positions_to(20, 12);
  const Bytestring bytes = shape.bytes();
  const Image image = parsed(bytes);
  EXPECT_EQ(image.position(0), 12);
  EXPECT_EQ(cut(image, 0, 8)->position(7), 19);
}

TEST(Image, OfAnEmptySequenceHasNoTokens) {
  const Bytestring bytes = TestImage{}.bytes();
  EXPECT_EQ(parsed(bytes).tokens(), 0U);
}

TEST(Image, CutsPartsOfAtMost512Tokens) {
  TestImage shape;
  shape.positions = positions_to(1300);
  const Bytestring bytes = shape.bytes();
  const auto parts = parsed(bytes).cut_parts(100, 1300);
  ASSERT_TRUE(parts);
  std::vector<std::uint32_t> sizes;
  for (const Part& part : *parts) sizes.push_back(part->tokens);
  EXPECT_THAT(sizes, testing::ElementsAre(512, 512, 176));
  EXPECT_EQ((*parts)[1]->position(0), 612);
}

TEST(Image, WithAWindowNeedsTheWindowOfItsEnd) {
  TestImage shape;
  shape.positions = positions_to(30);
  shape.window_positions = positions_to(30, 22);
  const Bytestring bytes = shape.bytes();
  const Image image = parsed(bytes, ImageKind::window);
  const auto window = image.checkpoint();
  ASSERT_TRUE(window);
  EXPECT_EQ(window->kind, Checkpoint::Kind::window);
  EXPECT_EQ(window->window_tokens, 8U);
  const std::vector<Piece> pieces = {{cut(image, 0, 30), 0, 30}};
  EXPECT_EQ(composed(image.layout(), {2, 1}, pieces, &*window), bytes);
  Bytestring out(bytes.size());
  EXPECT_EQ(code_of(compose_image(image.layout(), {2, 1}, pieces, nullptr, out)), "image-range");
}

TEST(Image, KeepsAWindowThatWrappedAroundAsItIs) {
  TestImage shape;
  shape.positions = positions_to(30);
  shape.window_positions = positions_to(30, 22);
  std::rotate(shape.window_positions.begin(), shape.window_positions.begin() + 3,
              shape.window_positions.end());
  const Bytestring bytes = shape.bytes();
  const Image image = parsed(bytes, ImageKind::window);
  const auto window = image.checkpoint();
  EXPECT_EQ(composed(image.layout(), {2, 1}, {{cut(image, 0, 30), 0, 30}}, &*window), bytes);
}

TEST(Image, OfAHybridModelKeepsTheStateBesideTheRows) {
  TestImage shape;
  shape.positions = positions_to(9);
  shape.state = TestImage::recurrent(8, 40);
  const Bytestring bytes = shape.bytes();
  const Image image = parsed(bytes, ImageKind::state);
  const auto state = image.checkpoint();
  ASSERT_TRUE(state);
  EXPECT_EQ(state->bytes, shape.state);
  EXPECT_EQ(composed(image.layout(), {2, 1}, {{cut(image, 0, 9), 0, 9}}, &*state), bytes);
}

TEST(Image, TakesACheckpointFromAPartialExport) {
  TestImage whole, partial;
  whole.positions = positions_to(30);
  whole.window_positions = partial.positions = positions_to(30, 22);
  const Bytestring whole_bytes = whole.bytes();
  const Image image = parsed(whole_bytes, ImageKind::window);
  // The window's payload is salted differently in the two writers: only the shape is compared here.
  const auto checkpoint = parse_checkpoint(partial.bytes(), ImageKind::window);
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  EXPECT_EQ(checkpoint->window_tokens, 8U);
  const auto back = compose_checkpoint(image.layout(), {2, 1}, *checkpoint);
  ASSERT_TRUE(back);
  EXPECT_EQ(*back, partial.bytes());

  TestImage recurrent;
  recurrent.state = TestImage::recurrent(5, 16);
  Bytestring bytes = TestImage{}.bytes();
  bytes.resize(8);
  bytes.insert(bytes.end(), recurrent.state.begin(), recurrent.state.end());
  const auto state = parse_checkpoint(bytes, ImageKind::state);
  ASSERT_TRUE(state);
  EXPECT_EQ(*compose_checkpoint({}, {2, 1}, *state), bytes);
}

TEST(Image, ThatDoesNotParseIsCopiedWhole) {
  const Checkpoint whole{.kind = Checkpoint::Kind::whole, .bytes = Bytestring(100, std::byte{7})};
  EXPECT_EQ(composed({}, {2, 1}, {}, &whole), whole.bytes);
}

TEST(Image, IsRefusedWhenAnyByteIsMissingOrAdded) {
  for (const TestImage& shape : shapes()) {
    const Bytestring bytes = shape.bytes();
    const ImageLayout layout = parsed(bytes).layout();
    for (std::size_t size = 0; size < bytes.size(); ++size)
      ASSERT_EQ(code_of(Image::parse(std::span(bytes).first(size), ImageKind::plain, &layout)),
                "image-invalid")
          << size;
    Bytestring longer = bytes;
    longer.push_back(std::byte{0});
    EXPECT_EQ(code_of(Image::parse(longer, ImageKind::plain)), "image-invalid");
  }
}

TEST(Image, IsRefusedWithAHoleOrAnotherKind) {
  TestImage shape;
  shape.positions = {0, 1, 3};
  EXPECT_EQ(code_of(Image::parse(shape.bytes(), ImageKind::plain)), "image-invalid");
  shape.positions = positions_to(3);
  EXPECT_EQ(code_of(Image::parse(shape.bytes(), ImageKind::window)), "image-invalid");
  EXPECT_EQ(code_of(Image::parse(shape.bytes(), ImageKind::state)), "image-invalid");
}

TEST(Image, RefusesPiecesThatDoNotContinueEachOther) {
  TestImage shape;
  shape.positions = positions_to(20);
  const Bytestring bytes = shape.bytes();
  const Image image = parsed(bytes);
  const Part part = cut(image, 0, 20);
  Bytestring out(bytes.size());
  const auto attempt = [&](const std::vector<Piece>& pieces, std::span<std::byte> buffer) {
    return code_of(compose_image(image.layout(), {2, 1}, pieces, nullptr, buffer));
  };
  EXPECT_EQ(attempt({{part, 0, 20}}, out), "none");
  EXPECT_EQ(attempt({{part, 1, 20}}, out), "image-range") << "does not begin at 0";
  EXPECT_EQ(attempt({{part, 0, 5}, {part, 6, 20}}, out), "image-range") << "a hole";
  EXPECT_EQ(attempt({{part, 0, 21}}, out), "image-range") << "beyond the part";
  EXPECT_EQ(attempt({}, out), "image-range");
  EXPECT_EQ(attempt({{part, 0, 20}}, std::span(out).first(out.size() - 1)), "image-range") << "no room";
}

TEST(Image, ASliceOfAPartIsWhatTheImageWouldHaveCut) {
  for (const TestImage& shape : shapes()) {
    const Bytestring bytes = shape.bytes();
    const Image image = parsed(bytes);
    const Part whole = cut(image, 3, 20);
    EXPECT_EQ(slice(image.layout().rows, {whole, 0, 17}), whole);
    EXPECT_EQ(slice(image.layout().rows, {whole, 2, 9})->bytes, cut(image, 5, 12)->bytes);
  }
}

TEST(Image, ValuesRowByRowAreTheSameForBothOrders) {
  TestImage shape;
  shape.positions = positions_to(17);
  const Bytestring rows_bytes = shape.bytes();
  shape.transposed = true;
  const Bytestring runs_bytes = shape.bytes();
  const Image rows = parsed(rows_bytes), runs = parsed(runs_bytes);
  const Part a = cut(rows, 3, 15), b = cut(runs, 3, 15);
  EXPECT_EQ(row_major(runs.layout().rows), rows.layout().rows);
  EXPECT_EQ(to_row_major(runs.layout().rows, *b).bytes, a->bytes);
  EXPECT_EQ(from_row_major(runs.layout().rows, *a).bytes, b->bytes);
  EXPECT_EQ(to_row_major(rows.layout().rows, *a).bytes, a->bytes);
}

}  // namespace
}  // namespace gezel::kvcache
