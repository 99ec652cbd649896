#include "kvcache/keys.h"

#include <openssl/evp.h>

#include <algorithm>

#include "kvcache/bytes_io.h"

namespace gezel::kvcache {

std::vector<Key> token_keys(std::span<const std::int32_t> tokens) {
  std::vector<Key> keys(tokens.size());
  std::transform(tokens.begin(), tokens.end(), keys.begin(), token_key);
  return keys;
}

Key media_key(const Digest& content, std::string_view preprocessing) {
  std::vector<std::byte> bytes;
  ByteWriter out(bytes);
  out.write(content);
  out.append(std::as_bytes(std::span(preprocessing)));
  const Digest digest = sha256(bytes);
  Key key = 0;
  std::memcpy(&key, digest.data(), sizeof(key));
  return key | Key{1} << 63;
}

std::uint64_t session_tag(std::string_view session) {
  const Digest digest = sha256(std::as_bytes(std::span(session)));
  std::uint64_t tag = 0;
  std::memcpy(&tag, digest.data(), sizeof(tag));
  return tag;
}

std::size_t outside_media(std::span<const Key> keys, std::size_t count) {
  while (count > 0 && count < keys.size() && is_media(keys[count]) && keys[count] == keys[count - 1]) --count;
  return count;
}

std::size_t common_prefix(std::span<const Key> a, std::span<const Key> b) {
  return static_cast<std::size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
}

Digest sha256(std::span<const std::byte> bytes) {
  Digest digest{};
  EVP_Digest(bytes.data(), bytes.size(), reinterpret_cast<unsigned char*>(digest.data()), nullptr,
             EVP_sha256(), nullptr);
  return digest;
}

std::string hex(std::span<const std::byte> bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const std::byte byte : bytes) {
    text += kDigits[std::to_integer<unsigned>(byte) >> 4];
    text += kDigits[std::to_integer<unsigned>(byte) & 15];
  }
  return text;
}

Digest domain_of(std::string_view adapters, std::string_view control_vectors, std::string_view tenant_salt,
                 std::string_view projector) {
  std::vector<std::byte> bytes;
  ByteWriter out(bytes);
  for (const std::string_view part : {adapters, control_vectors, tenant_salt, projector}) {
    out.write(static_cast<std::uint64_t>(part.size()));
    out.append(std::as_bytes(std::span(part)));
  }
  return sha256(bytes);
}

Digest prefix_hash(const Digest& domain, std::span<const Key> keys) {
  std::vector<std::byte> bytes;
  bytes.reserve(domain.size() + keys.size() * 4);
  ByteWriter out(bytes);
  out.write(domain);
  for (const Key key : keys) {
    if (is_media(key)) {
      out.write(key);
    } else {
      out.write(static_cast<std::uint32_t>(key));
    }
  }
  return sha256(bytes);
}

}  // namespace gezel::kvcache
