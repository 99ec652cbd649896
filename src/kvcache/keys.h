// kvcache/keys.h
//
// What the cache compares: tokens and media as 64-bit keys, and hashes of their prefixes.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gezel::kvcache {

// One position of a sequence. Text: the token. Media: media_key(), repeated for each position that it
// occupies.
using Key = std::uint64_t;
using Digest = std::array<std::byte, 32>;  // SHA-256

inline Key token_key(std::int32_t token) {
  return static_cast<std::uint32_t>(token);
}
std::vector<Key> token_keys(std::span<const std::int32_t> tokens);
// Of an image or sound: SHA-256 of its bytes, folded with the version of its preprocessing. Never a token's
// key.
Key media_key(const Digest& content, std::string_view preprocessing);
inline bool is_media(Key key) {
  return key >> 32 != 0;
}

// The largest count <= `count` that does not end inside a media span.
std::size_t outside_media(std::span<const Key> keys, std::size_t count);
// How many keys two sequences begin with in common.
std::size_t common_prefix(std::span<const Key> a, std::span<const Key> b);

// How nodes and records name a session: the beginning of the SHA-256 of its id.
std::uint64_t session_tag(std::string_view session);

Digest sha256(std::span<const std::byte> bytes);
std::string hex(std::span<const std::byte> bytes);

// Sequences of different domains share nothing: adapters with their scales, control vectors, tenant salt and
// projector are part of what was computed.
Digest domain_of(std::string_view adapters, std::string_view control_vectors, std::string_view tenant_salt,
                 std::string_view projector);
// SHA-256 over the domain, then each key: text as little-endian u32, media as u64. Independent of how a tree
// splits the sequence.
Digest prefix_hash(const Digest& domain, std::span<const Key> keys);
// The same of several prefixes of these keys, shortest first, in one pass over them.
std::vector<Digest> prefix_hashes(const Digest& domain, std::span<const Key> keys,
                                  std::span<const std::uint32_t> lengths);

}  // namespace gezel::kvcache
