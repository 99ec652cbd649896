// kvcache/test_tree.h
//
// For tests: sequences whose rows say which sequence they belong to, so that a wrong row is seen wherever it
// turns up.
#pragma once
#include <gtest/gtest.h>

#include <cstring>
#include <string_view>
#include <vector>

#include "kvcache/tree.h"

namespace gezel::kvcache {

inline constexpr Digest kTestDomain{};

// One layer of 8 bytes per token: position (4) and row (8) make 12 bytes a token.
inline ImageLayout test_layout() {
  ImageLayout layout;
  layout.rows.keys = {{.type = 1, .row_bytes = 8}};
  return layout;
}
inline constexpr Bytes kTestTokenBytes = 12;

// The row of the last of `keys`: depends on all of them, as a real one does.
inline std::uint64_t test_row(std::span<const Key> keys) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const Key key : keys) hash = (hash ^ key) * 0x100000001b3;
  return hash;
}

inline Part test_part(std::span<const Key> keys, std::uint32_t from) {
  auto rows = std::make_shared<Rows>();
  rows->tokens = static_cast<std::uint32_t>(keys.size()) - from;
  rows->bytes.resize(rows->tokens * kTestTokenBytes);
  for (std::uint32_t i = 0; i < rows->tokens; ++i) {
    const auto position = static_cast<std::int32_t>(from + i);
    const std::uint64_t row = test_row(keys.first(from + i + 1));
    std::memcpy(rows->bytes.data() + i * 4, &position, 4);
    std::memcpy(rows->bytes.data() + rows->tokens * 4 + i * 8, &row, 8);
  }
  return rows;
}

inline Checkpoint test_checkpoint(std::span<const Key> keys) {
  const std::uint64_t row = test_row(keys);
  Checkpoint checkpoint{.kind = Checkpoint::Kind::state};
  for (const std::uint64_t value : {std::uint64_t{1}, std::uint64_t{1} << 32, std::uint64_t{0}, row})
    for (int i = 0; i < 8; ++i) checkpoint.bytes.push_back(static_cast<std::byte>(value >> (8 * i)));
  return checkpoint;
}

// What a context exports for a slot that holds `keys`.
inline Buffer test_image(std::span<const Key> keys) {
  const std::vector<Piece> pieces = {{test_part(keys, 0), 0, static_cast<std::uint32_t>(keys.size())}};
  Buffer bytes(composed_bytes(test_layout(), {1, 0}, keys.size(), nullptr));
  EXPECT_TRUE(compose_image(test_layout(), {1, 0}, pieces, nullptr, bytes));
  return bytes;
}

inline Bytes absorb_all(Tree& tree, NodeId id, std::span<const Key> keys) {
  const Buffer bytes = test_image(keys);
  const auto image = Image::parse(bytes, ImageKind::plain);
  EXPECT_TRUE(image);
  return tree.absorb(id, *image, 0);
}

// The first node whose rows or checkpoint are not those of its own tokens, or "".
inline std::string check_content(const Tree& tree) {
  std::string trouble;
  tree.each([&](NodeId id, const Node& node) {
    if (!trouble.empty() || !node.has_host()) return;
    const std::vector<Key> keys = tree.path_keys(id);
    std::uint32_t at = node.start;
    for (const Piece& piece : node.rows) {
      for (std::uint32_t i = piece.from; i < piece.to; ++i, ++at) {
        std::uint64_t row;
        std::memcpy(&row, piece.part->bytes.data() + piece.part->tokens * 4 + i * 8, 8);
        if (row != test_row(std::span(keys).first(at + 1)) ||
            piece.part->position(i) != static_cast<std::int32_t>(at)) {
          trouble = "node " + std::to_string(id) + " has another sequence's row at " + std::to_string(at);
          return;
        }
      }
    }
    if (node.checkpoint && node.checkpoint->bytes != test_checkpoint(keys).bytes)
      trouble = "node " + std::to_string(id) + " has another sequence's checkpoint";
  });
  return trouble;
}

inline std::vector<Key> counted(std::size_t count, Key first = 1) {
  std::vector<Key> keys;
  for (std::size_t i = 0; i < count; ++i) keys.push_back(first + i);
  return keys;
}

inline std::vector<Key> joined(std::vector<Key> a, const std::vector<Key>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace gezel::kvcache
